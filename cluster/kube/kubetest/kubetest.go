// Package kubetest makes pods and layouts for the tests of packages that schedule pods.
//
// Invariant: every call returns a new object, so a test may change it. Descriptions that cannot be read fail the test
// or panic.
package kubetest

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Two describes a machine of two NUMA nodes with 16 CPUs each.
const Two = `
numa 0 socket 0 cpus 0-15 memory 64Gi
numa 1 socket 1 cpus 16-31 memory 64Gi
`

// Layout returns the layout of a node whose CPU and memory managers are static. version is the object's resource
// version.
func Layout(t testing.TB, node, machine string, policy place.Policy, version int,
	entries ...state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	return ruled(t, node, machine, version, place.Rules{Topology: place.TopologyRules{Policy: policy},
		CPU: place.CPURules{Static: true}, Memory: place.MemoryRules{Static: true}}, entries)
}

// Strict returns a layout of the machine Two under strict-cpu-reservation with CPU 0 reserved.
func Strict(t testing.TB, node string, version int, entries ...state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	return ruled(t, node, Two, version, place.Rules{Topology: place.TopologyRules{Policy: place.BestEffort},
		Memory: place.MemoryRules{Static: true},
		CPU:    place.CPURules{Static: true, StrictReservation: true, Reserved: idset.Of[idset.CPU](0)}}, entries)
}

func ruled(t testing.TB, node, machine string, version int, r place.Rules,
	entries []state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	l := v1alpha1.FromCore(node, m, r, entries, nil)
	l.ResourceVersion = fmt.Sprint(version)
	return l
}

// Holding returns an entry of a layout in which the container c of a pod holds these CPUs.
func Holding(p *v1.Pod, cpus string) state.Entry {
	set, err := idset.Parse[idset.CPU](cpus)
	if err != nil {
		panic(err)
	}
	return state.Entry{Pod: kube.ID(p), Holdings: []place.Holding{{Container: "c", CPUs: set}}}
}

// Pod returns a pod of one container with these amounts, such as "cpu=4 memory=1Gi". It is Guaranteed if it has both
// CPUs and memory.
func Pod(name, amounts string) *v1.Pod {
	list := v1.ResourceList{}
	for _, f := range strings.Fields(amounts) {
		key, q, _ := strings.Cut(f, "=")
		list[v1.ResourceName(key)] = resource.MustParse(q)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
}

// CPUs returns a pod of n CPUs and 1Gi of memory.
func CPUs(name string, n int) *v1.Pod { return Pod(name, fmt.Sprintf("cpu=%d memory=1Gi", n)) }

// Many returns a pod of two CPUs with the given number of init containers, each with its own name.
func Many(name string, inits int) *v1.Pod {
	pod := CPUs(name, 2)
	for i := range inits {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name = fmt.Sprintf("init-%d", i)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

// Bound returns a copy of the pod that is bound to a node.
func Bound(p *v1.Pod, node string) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// Admitted returns a copy of the pod that is bound to a node and has a start time, as after its kubelet admitted or
// rejected it.
func Admitted(p *v1.Pod, node string) *v1.Pod {
	p = Bound(p, node)
	p.Status.StartTime = &metav1.Time{}
	return p
}

// Annotated returns a copy of the pod with one annotation.
func Annotated(p *v1.Pod, annotation, value string) *v1.Pod {
	p = p.DeepCopy()
	p.Annotations = map[string]string{annotation: value}
	return p
}
