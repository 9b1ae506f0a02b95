package desired

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

const staticConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
topologyManagerPolicy: single-numa-node
cpuManagerPolicy: static
kubeReserved: {cpu: "1"}
`

// failer has the methods of a test that the helpers need.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func machine(t failer) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-7 memory 8Gi")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func configuration(t failer, text string) kubelet.Configuration {
	t.Helper()
	c, err := kubelet.ParseConfiguration([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// facts returns the facts of a machine of eight CPUs on two NUMA nodes, with CPU 0 reserved.
func facts(t failer) Facts {
	t.Helper()
	return Facts{}.WithMachine(machine(t), v1alpha1.Detail{}, nil).WithConfiguration(configuration(t, staticConfig), nil)
}

// observed is an observation of a quiet node with two devices.
func observed(t failer) Observation {
	t.Helper()
	o := Observation{Facts: facts(t), Pods: Pods{},
		Node: Node{UID: "uid-of-node", KubeletVersion: "v" + place.DefaultRelease.String() + ".3",
			Capacity: map[string]int64{"x.io/gpu": 2}}}
	o.Kubelet.Allocatable = []kubelet.Device{gpu("g0", 0), gpu("g1", 1)}
	return o.cpus(t, "0-7", "{}")
}

func gpu(id string, numa idset.NUMA) kubelet.Device {
	return kubelet.Device{Resource: "x.io/gpu", ID: id, NUMAs: idset.Of(numa)}
}

// cpus returns the observation with a cpu_manager_state.
func (o Observation) cpus(t failer, shared, entries string) Observation {
	t.Helper()
	text := fmt.Sprintf(`{"policyName":"static","defaultCpuSet":%q,"entries":%s}`, shared, entries)
	s, err := kubelet.ParseCPUState([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o.Kubelet.CPU = s
	return o
}

// runs returns the observation with running pods.
func (o Observation) runs(names ...string) Observation {
	var pods []*v1.Pod
	for i, name := range names {
		at := metav1.Unix(int64(100-i), 0)
		pods = append(pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
			Status:     v1.PodStatus{Phase: v1.PodRunning, StartTime: &at}})
	}
	o.Pods = PodsOf(pods)
	return o
}

// lists returns the observation of a kubelet that lists pods.
func (o Observation) lists(names ...string) Observation {
	o.Kubelet.Listed = nil
	for _, name := range names {
		o.Kubelet.Listed = append(o.Kubelet.Listed,
			kubelet.Listed{Namespace: "ns", Name: name, Containers: []kubelet.ListedContainer{{Name: "main"}}})
	}
	return o
}

// text describes a result: what it publishes and what it asks for.
func (r Result) text() string {
	var out []string
	if r.Layout == nil {
		out = append(out, "nothing")
	} else {
		out = append(out, "layout ["+held(r.Layout)+"]")
	}
	if r.Again {
		out = append(out, "again")
	}
	if r.Err != nil {
		out = append(out, "error")
	}
	return strings.Join(out, ", ")
}

func held(l *v1alpha1.NodeLayout) string {
	var out []string
	for _, p := range l.Holdings {
		out = append(out, p.Name+"="+string(p.Containers[0].CPUs))
	}
	return strings.Join(out, " ")
}

func codes(l *v1alpha1.NodeLayout) string {
	var out []string
	for _, r := range l.Inexact {
		out = append(out, r.Code)
	}
	return strings.Join(out, " ")
}

// step is an observation, how often it is made, and what its last result must be.
type step struct {
	what  string
	o     Observation
	times int // 0 means once
	want  string
}

// play computes the results of steps one after the other, and returns the last.
func play(t *testing.T, steps ...step) (r Result) {
	t.Helper()
	for _, s := range steps {
		for range max(1, s.times) {
			r = Compute(Options{NodeName: "node-a"}, r.State, s.o)
		}
		if got := r.text(); got != s.want {
			t.Errorf("%s: %s, want %s", s.what, got, s.want)
		}
	}
	return r
}
