// Package library_test runs Tenon's plugin inside sigs.k8s.io/scheduler-library, by which programs such as Kueue ask
// kube-scheduler's plugins where a pod would go. The cluster is an API server with nodes, pods and layouts; no
// scheduler and no kubelet runs. The tests ask the frameworks that the library makes itself, and frameworks that have
// Tenon as well.
//
// Invariant: no framework writes to the API server, because its client refuses that, as the library's own does. The
// tests also record where the library ends today: they fail with a later version that goes further. The package
// changes and replaces no part of the library.
package library_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/scheduler-library/pkg/upstreamsync/snapshot"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	layouts "github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	definition "github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
)

// Two machines of 32 CPUs: a pod of more than 16 gets its CPUs on one NUMA node of the second only.
const (
	halves = "numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 socket 1 cpus 16-31 memory 64Gi\n"
	whole  = "numa 0 socket 0 cpus 0-31 memory 128Gi\n"
)

// both are the names of the nodes with these machines.
var both = []string{"halves", "whole"}

// patience bounds a test; a busy computer of two cores needs some ten seconds for each.
const patience = 3 * time.Minute

// cluster is an API server with nodes whose kubelets admit pods on one NUMA node only.
type cluster struct {
	*testing.T
	ctx     context.Context
	admin   *rest.Config
	client  kubernetes.Interface
	layouts *layouts.Client
	nodes   []*v1.Node
	pods    []*v1.Pod // on the nodes

	sequence int64 // of the layouts
	writes   refusing
	probe    probe // a plugin beside Tenon
}

// start starts an API server with two nodes, named like their machines.
func start(t *testing.T) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), CRDs: definition.Layouts()})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, ctx: ctx, admin: p.Admin, client: kubernetes.NewForConfigOrDie(p.Admin)}
	t.Cleanup(func() {
		cancel() // what follows the API server ends before it
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		c.writes.only(t, "PUT /apis/tenon.sh/v1alpha1/nodelayouts/halves/status",
			"PUT /apis/tenon.sh/v1alpha1/nodelayouts/whole/status")
	})
	if c.layouts, err = layouts.New(p.Admin); err != nil {
		t.Fatal(err)
	}
	c.node("halves")
	c.node("whole")
	c.report("halves", halves)
	c.report("whole", whole)
	return c
}

// node creates a node with 32 CPUs.
func (c *cluster) node(name string) {
	c.Helper()
	amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"),
		v1.ResourcePods: resource.MustParse("110")}
	n, err := c.client.CoreV1().Nodes().Create(c.ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1.NodeStatus{Capacity: amounts, Allocatable: amounts}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.nodes = append(c.nodes, n)
}

// report writes the layout of a node, as its agent does.
func (c *cluster) report(node, machine string, holds ...state.Entry) {
	c.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		c.Fatal(err)
	}
	c.sequence++
	l := v1alpha1.FromCore(node, m, place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true}}, holds, nil)
	l.Sequence, l.Agent = c.sequence, v1alpha1.Agent{ID: "a", Since: metav1.NewMicroTime(time.Unix(1e9, 0))}
	if _, err := c.layouts.Apply(c.ctx, l); err != nil {
		c.Fatal(err)
	}
}

// runs creates a pod on a node, and reports that it holds these CPUs there.
func (c *cluster) runs(name, node, machine, cpus string) *v1.Pod {
	c.Helper()
	set, err := idset.Parse[idset.CPU](cpus)
	if err != nil {
		c.Fatal(err)
	}
	pod := cores(name, set.Len())
	pod.UID, pod.Spec.NodeName = "", node
	if pod, err = c.client.CoreV1().Pods(pod.Namespace).Create(c.ctx, pod, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = v1.PodRunning, &now
	pod, err = c.client.CoreV1().Pods(pod.Namespace).UpdateStatus(c.ctx, pod, metav1.UpdateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.report(node, machine, state.Entry{Pod: kube.ID(pod), Holdings: []place.Holding{{Container: "c", CPUs: set}}})
	c.pods = append(c.pods, pod)
	return pod
}

// cores returns a Guaranteed pod that is not in the API server.
func cores(name string, n int) *v1.Pod {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Gi")}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "lab.invalid/c:1",
			Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}}}
}

// answer is what the library answers about one pod.
type answer struct {
	nodes []string          // on which the pod can be scheduled
	why   map[string]string // what refused it elsewhere: the plugin, and its reason
}

// ask asks the library on which nodes a pod can be scheduled.
func (c *cluster) ask(s *snapshot.ClusterSnapshot, pod *v1.Pod) answer {
	c.Helper()
	on, err := s.MakePlacement(both)
	if err != nil {
		c.Fatal(err)
	}
	fits, diagnosis, err := s.CanSchedulePod(c.ctx, pod, on)
	if err != nil {
		c.Fatal(err)
	}
	out := answer{nodes: slices.Sorted(slices.Values(fits))}
	for _, n := range both {
		if !slices.Contains(fits, n) {
			if out.why == nil {
				out.why = map[string]string{}
			}
			status := diagnosis.NodeToStatus.Get(n)
			out.why[n] = fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
		}
	}
	return out
}

// equal compares an answer with the expected one.
func (c *cluster) equal(what string, got, want answer) {
	c.Helper()
	if !reflect.DeepEqual(got, want) {
		c.Errorf("%s: the library answers %+v, want %+v", what, got, want)
	}
}

// schedule lets the library schedule pods one after the other, and returns the node of each, or why it has none. On
// trial, the pods are then removed from the snapshot.
func (c *cluster) schedule(s *snapshot.ClusterSnapshot, nodes []string, trial bool, pods ...*v1.Pod) (out []string) {
	c.Helper()
	on, err := s.MakePlacement(nodes)
	if err != nil {
		c.Fatal(err)
	}
	results, err := s.SchedulePods(c.ctx, pods, on, snapshot.NewSchedulePodsOptions(trial, false))
	if err != nil {
		c.Fatal(err)
	}
	for _, r := range results {
		if r.Status.IsSuccess() {
			out = append(out, r.SelectedNodeName)
		} else {
			out = append(out, r.Status.AsError().Error())
		}
	}
	return out
}

// refusing is a client's transport that refuses writes, as the one of the library does, and remembers them.
type refusing struct {
	mu   sync.Mutex
	seen []string
}

// of returns an access to the API server without writes.
func (w *refusing) of(admin *rest.Config) *rest.Config {
	out := rest.CopyConfig(admin)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{w, next} })
	return out
}

// only fails the test if a framework has tried another write than these. Tenon's writes are conditions of layouts.
func (w *refusing) only(t *testing.T, these ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if !slices.Contains(these, s) {
			t.Errorf("a framework tries to write: %s", s)
		}
	}
}

type transport struct {
	*refusing
	next http.RoundTripper
}

var errWrite = errors.New("writes are refused")

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return t.next.RoundTrip(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = append(t.seen, r.Method+" "+r.URL.Path)
	return nil, errWrite
}
