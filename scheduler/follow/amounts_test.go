package follow

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

func pod(name, node string, phase v1.PodPhase) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}}}}},
		Status: v1.PodStatus{Phase: phase},
	}
}

// A node's pods are the bound pods that have not ended, and the pods that the scheduler has placed there.
func TestAmountsOfANode(t *testing.T) {
	f := informers.NewSharedInformerFactory(nil, 0)
	a, err := NewAmounts(f)
	if err != nil {
		t.Fatal(err)
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", ResourceVersion: "1"}, Status: v1.NodeStatus{
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("16"), v1.ResourcePods: resource.MustParse("110")}}}
	if err := f.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*v1.Pod{pod("bound", "n", v1.PodRunning), pod("ended", "n", v1.PodSucceeded),
		pod("assumed", "", v1.PodPending), pod("waiting", "", v1.PodPending), pod("elsewhere", "m", v1.PodRunning)} {
		if err := a.pods.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	entry := state.Entry{Pod: state.PodID{UID: "uid-assumed", Namespace: "team", Name: "assumed"}}
	n := &state.Node{Name: "n", Entries: []state.Entry{entry}}
	allocatable, used, there := a.Of(n)
	if !there || !maps.Equal(allocatable, whatif.Amounts{"cpu": 16_000, "pods": 110}) ||
		!maps.Equal(used, whatif.Amounts{"cpu": 4_000, "pods": 2}) {
		t.Errorf("of n: %v, %v, %t", allocatable, used, there)
	}
	if _, _, there := a.Of(&state.Node{Name: "nowhere"}); there {
		t.Error("a node that is not there has amounts")
	}
	before := a.Version(n)
	if a.Version(n) != before {
		t.Error("the version changes without a cause")
	}
	if err := a.pods.Add(pod("another", "n", v1.PodRunning)); err != nil {
		t.Fatal(err)
	}
	if a.Version(n) == before {
		t.Error("the version stays with another pod on the node")
	}
}
