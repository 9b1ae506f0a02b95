package steer_test

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

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
