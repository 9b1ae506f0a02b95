package steer_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/steer"
)

// A device near the pod makes an expression of the claim fail, and one far from it does not. kube-scheduler's plugin
// takes the far one, which must not be taken: the node is refused before it is chosen.
func TestExpressionsThatFailOnNearDevices(t *testing.T) {
	b := newBench(t)
	devices := b.gpus(0, 1)
	devices[0].Attributes["model"] = resourcev1.DeviceAttribute{StringValue: new("a")}
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("one")
	spec := counted(1)
	spec.Requests[0].Exactly.Selectors = selector(`device.attributes["gpu.example.com"].model == "a"`)
	b.claim(pod, spec)
	b.isRefused(t, pod, "cannot find out")
	if b.undone > 0 {
		t.Errorf("the pod is tried again at once %d times, and nothing has changed", b.undone)
	}
	b.near.Must = false
	b.gets(t, pod, "0")
}

// A pod that another plugin has refused in PreFilter, before this one, is refused for that reason alone.
func TestPodsThatOthersRefusedInAdvance(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1)
	pod := podNamed("one")
	b.claim(pod, counted(1))
	_, status := b.plugin.PostFilter(t.Context(), framework.NewCycleState(), pod, framework.NewDefaultNodeToStatus())
	if !status.IsRejected() || status.Message() != "" {
		t.Errorf("PostFilter returned %v: %q", status.Code(), status.Message())
	}
}

// Preemption for a group runs Filter again in a cycle in which the pod's devices were reserved. Where the pod would be
// elsewhere by then, what was reserved does not count as near.
func TestFilterAfterReserve(t *testing.T) {
	b, cs := newBench(t), framework.NewCycleState()
	b.gpus(0, 1)
	b.taken.Insert(idOf("gpu-1"))
	b.near = steer.Near{NUMAs: []int{0}, Must: true}
	pod := podNamed("one")
	b.claim(pod, counted(1))
	if got := b.scheduleIn(t.Context(), t, cs, pod); got.why != "" {
		t.Fatal(got.why)
	}
	b.plugin.Unreserve(t.Context(), cs, pod, "node")
	b.near.NUMAs = []int{1}
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}})
	if far, _ := steer.Far(b.plugin.Filter(t.Context(), cs, pod, info)); !far {
		t.Error("the node is not refused, although the only device near the pod is taken")
	}
}
