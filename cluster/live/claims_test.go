package live

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/cluster/held"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/live/livetest"
)

// A pod that waits for an extended resource that DRA serves gets none of the devices that are kept. A device is not
// kept any more once a claim has it, whichever namespace the claim is of.
func TestKeptDevicesOfPodsWithoutANode(t *testing.T) {
	const served = "example.com/gpu"
	s := livetest.New(t)
	waits := livetest.Pod("ml", "waits", "")
	waits.Spec.Containers[0].Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{served: resource.MustParse("1")}, Limits: v1.ResourceList{served: resource.MustParse("1")}}
	s.List(livetest.Nodes, livetest.Node("a"))
	s.List(livetest.Pods, waits)
	v := start(t, s, Options{})
	slice := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	slice.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: new("a"),
		Pool:    resourcev1.ResourcePool{Name: "a", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "g0"}, {Name: "g1"}}}
	v.putSlice(&slice)
	taken := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "another", Name: "c"}}
	taken.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "d", Pool: "a", Device: "g0"}}}}
	v.putClaim(&taken)

	out := v.Claims("")
	v.AddDevices(out)
	out.Served = map[string]bool{served: true}
	out.Kept = map[string]*kube.Kept{"a": {Devices: []kube.KeptDevice{
		{Driver: "d", Pool: "a", Name: "g0", Request: "ml/r"}, {Driver: "d", Pool: "a", Name: "g1", Request: "ml/r"}}}}
	if len(out.Pods) != 1 {
		t.Fatalf("%d pods wait", len(out.Pods))
	}
	got := held.Of(out).Pods[string(out.Pods[0].Pod().UID)]
	if got == nil || len(got.Kept) != 1 || got.Kept[0].Devices != 1 {
		t.Errorf("of two kept devices a claim has one; kept from the pod: %+v", got)
	}
}
