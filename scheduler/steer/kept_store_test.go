package steer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/capacity"
	"github.com/tenon-numa/tenon/scheduler/promise"
)

// keptStore has requests and templates as an API server has them, and the nodes of a ledger.
type keptStore struct {
	book      *ledger.Book
	nodes     []v1.Node
	templates map[string]*v1.PodTemplate
	objects   cache.Store // requests
	version   int
	// using returns the bound pods of a request.
	using func(request string) []*v1.Pod
}

func (s *keptStore) List(context.Context, metav1.ListOptions) (*provisioning.RequestList, error) {
	return &provisioning.RequestList{}, nil
}

func (s *keptStore) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func (s *keptStore) SetStatus(_ context.Context, r *provisioning.Request) error {
	s.version++
	next, _ := r.DeepCopyObject().(*provisioning.Request)
	next.ResourceVersion = fmt.Sprint(s.version)
	return s.objects.Update(next)
}

func (s *keptStore) Stage(of *stage.Requests) (*stage.Stage, error) {
	return stage.OfAgain(&kube.View{Nodes: slices.Clone(s.nodes), States: slices.Collect(s.book.Snapshot().All()),
		Served: map[string]bool{}}, of)
}

func (s *keptStore) Using(request string) []*v1.Pod        { return s.using(request) }
func (s *keptStore) Owned(string, string, int64) []*v1.Pod { return nil }
func (s *keptStore) Broken(node string) bool               { return !s.book.Snapshot().Node(node).Keeps() }

func (s *keptStore) Waits(string, string, types.UID) bool { return false }

func (s *keptStore) Rules(scheduler string) (whatif.Rules, bool) {
	return whatif.Rules{}, scheduler == "tenon-scheduler"
}

func (s *keptStore) Template(_ context.Context, _, name string) (*v1.PodTemplate, error) {
	if t := s.templates[name]; t != nil {
		return t, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("podtemplates"), name)
}

// keptWorld is a controller on some nodes of two NUMA nodes with eight CPUs each.
type keptWorld struct {
	*keptStore
	*capacity.Controller
	keeper *promise.Keeper
	time   time.Time
}

func newKeptWorld(t testing.TB, nodes int) *keptWorld {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-7 memory 512Gi\nnuma 1 socket 1 cpus 8-15 memory 512Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	w := &keptWorld{keptStore: &keptStore{book: ledger.New(), templates: map[string]*v1.PodTemplate{},
		objects: cache.NewStore(cache.MetaNamespaceKeyFunc), using: func(string) []*v1.Pod { return nil }},
		time: time.Unix(1e9, 0)}
	rules := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		w.book.Report(name, state.Layout{Machine: m, Rules: rules})
		w.nodes = append(w.nodes, v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1.NodeStatus{Allocatable: v1.ResourceList{"cpu": resource.MustParse("16"),
				"memory": resource.MustParse("1000Gi"), "pods": resource.MustParse("250")}}})
	}
	return w
}

// start starts the controller, in place of the one before.
func (w *keptWorld) start() {
	w.keeper = promise.NewKeeper(w.book, func(node string, list []state.Promised, _ whatif.Amounts) bool {
		n := *w.book.Snapshot().Node(node)
		n.Promised = list
		return n.Keeps()
	}, func(string) {}, func(string) {})
	w.Controller = capacity.New(w.keptStore, w.keptStore, w.keeper, func() bool { return true },
		func() time.Time { return w.time }, klog.Background())
}

// ask stores a request for equal pods.
func (w *keptWorld) ask(name string, count, cpus int) {
	amounts := v1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		"memory": resource.MustParse("1Gi")}
	w.templates[name] = &v1.PodTemplate{Template: v1.PodTemplateSpec{Spec: v1.PodSpec{SchedulerName: "tenon-scheduler",
		Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Limits: amounts}}}}}}
	w.version++
	r := &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name),
		ResourceVersion: fmt.Sprint(w.version), CreationTimestamp: metav1.NewTime(w.time)},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: []provisioning.PodSet{{Count: int32(count),
			PodTemplateRef: provisioning.Reference{Name: name}}}}}
	if err := w.objects.Add(r); err != nil {
		panic(err)
	}
}

// said returns a condition of a request, "True: MESSAGE", or "".
func (w *keptWorld) said(name, kind string) string {
	o, _, _ := w.objects.GetByKey("ml/" + name)
	r, _ := o.(*provisioning.Request)
	if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
		return string(c.Status) + ": " + c.Message
	}
	return ""
}

func (w *keptWorld) wants(t *testing.T, name, kind, part string) {
	t.Helper()
	if got := w.said(name, kind); !strings.HasPrefix(got, part) {
		t.Errorf("request %s has %s %q, want %q", name, kind, got, part)
	}
}
