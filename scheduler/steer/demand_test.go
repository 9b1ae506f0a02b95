package steer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/scheduler/steer"
)

// demanding returns a pod with a claim and an annotation that demands devices near.
func (b *bench) demanding(align string, requests ...resourcev1.DeviceRequest) *v1.Pod {
	b.claims, b.pending = map[string]*resourcev1.ResourceClaim{}, map[types.UID]*resourcev1.AllocationResult{}
	pod := podNamed("demands")
	pod.Annotations = map[string]string{"tenon.sh/align": align}
	b.claim(pod, resourcev1.DeviceClaim{Requests: requests})
	return pod
}

// wanting is a request for devices of a class. count 0 is for all of them.
func wanting(name, class string, count int64) resourcev1.DeviceRequest {
	mode := resourcev1.DeviceAllocationModeExactCount
	if count == 0 {
		mode = resourcev1.DeviceAllocationModeAll
	}
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class,
		AllocationMode: mode, Count: count}}
}

// grants fails the test unless a pod gets these devices, each for its request.
func (b *bench) grants(t *testing.T, pod *v1.Pod, want ...string) {
	t.Helper()
	if got := b.schedule(t.Context(), t, pod); !slices.Equal(got.granted, want) {
		t.Errorf("%s: the pod got %v (%s), want %v", pod.Annotations["tenon.sh/align"], got.granted, got.why, want)
	}
}

const noneNear = "the pod's claims get no devices on NUMA node 1, where its CPUs and memory would be, " +
	"as tenon.sh/align demands"

// Two requests can get the same devices, and only one of them is demanded near. It gets the near device, also where the
// other request comes first.
func TestAPodDemandsTheDevicesOfARequest(t *testing.T) {
	b := newBench(t)
	b.gpus(1, 0)
	b.near = steer.Near{NUMAs: []int{1}}
	first, second := wanting("first", "gpu", 1), wanting("second", "gpu", 1)
	near, far := " gpu.example.com/node/gpu-0", " gpu.example.com/node/gpu-1"
	b.grants(t, b.demanding("claim:claim-0/second", first, second), "claim-0/first"+far, "claim-0/second"+near)
	b.grants(t, b.demanding("claim:claim-0/first", first, second), "claim-0/first"+near, "claim-0/second"+far)
	b.isRefused(t, b.demanding("claim:claim-0", first, second), noneNear)
	b.isRefused(t, b.demanding("claim:claim-0/first,claim:claim-0/second", first, second), noneNear)
	b.isRefused(t, b.demanding("class:gpu", first, second), noneNear)
	b.grants(t, b.demanding("class:gpu", first), "claim-0/first"+near)
	claim := b.claims["claim-0"].Spec.Devices.Requests
	if len(claim[0].Exactly.Selectors) > 0 || len(b.slices[0].Spec.Devices[0].Attributes) != 1 {
		t.Error("the claim or the slice has changed")
	}
}

// A driver cannot make a device near by the attribute that marks near ones.
func TestADriverThatMarksItsDevices(t *testing.T) {
	yes := resourcev1.DeviceAttribute{BoolValue: new(true)}
	for driver, name := range map[string]resourcev1.QualifiedName{gpuDriver: "tenon.sh/near", "tenon.sh": "near"} {
		b := newBench(t)
		devices := b.gpus(0)
		b.slices[0].Spec.Driver = driver
		devices[0].Attributes[name] = yes
		b.near = steer.Near{NUMAs: []int{1}}
		b.isRefused(t, b.demanding("claim:claim-0", wanting("r", "gpu", 1)), noneNear)
		if devices[0].Attributes[name].BoolValue != yes.BoolValue {
			t.Error("the slice has changed")
		}
		b.near = steer.Near{NUMAs: []int{0}}
		b.grants(t, b.demanding("claim:claim-0", wanting("r", "gpu", 1)), "claim-0/r "+driver+"/node/gpu-0")
	}
}

// A request for all devices is fulfilled as a whole. One that would get a far device is not met by the near ones.
func TestAPodDemandsAllDevicesOfAClass(t *testing.T) {
	b := newBench(t)
	b.gpus(1, 1, 0)
	b.near = steer.Near{NUMAs: []int{1}}
	all := wanting("all", "gpu", 0)
	b.isRefused(t, b.demanding("claim:claim-0/all", all), noneNear)
	b.isRefused(t, b.demanding("class:gpu", all), noneNear)
	all.Exactly.Selectors = selector(`device.attributes["resource.kubernetes.io"].numaNode == 1`)
	b.grants(t, b.demanding("class:gpu", all), "claim-0/all gpu.example.com/node/gpu-0",
		"claim-0/all gpu.example.com/node/gpu-1")
}

// A request with admin access gets devices that others hold, and near ones if it is named.
func TestAPodDemandsDevicesWithAdminAccess(t *testing.T) {
	needs(t, admins)
	b := newBench(t)
	b.gpus(0, 1)
	b.taken.Insert(idOf("gpu-0"), idOf("gpu-1"))
	b.near = steer.Near{NUMAs: []int{1}}
	one, all := wanting("r", "gpu", 1), wanting("r", "gpu", 0)
	one.Exactly.AdminAccess, all.Exactly.AdminAccess = new(true), new(true)
	b.grants(t, b.demanding("claim:claim-0", one), "claim-0/r gpu.example.com/node/gpu-1")
	b.isRefused(t, b.demanding("claim:claim-0", all), noneNear)
}

// An alternative that is not named may get far devices, and one that is named is left out then.
func TestAPodDemandsTheDevicesOfAnAlternative(t *testing.T) {
	needs(t, lists)
	b := newBench(t)
	b.gpus(1, 0, 0)
	b.near = steer.Near{NUMAs: []int{1}}
	list := resourcev1.DeviceRequest{Name: "gpus", FirstAvailable: []resourcev1.DeviceSubRequest{
		{Name: "two", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2},
		{Name: "three", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 3}}}
	b.isRefused(t, b.demanding("claim:claim-0/gpus", list), noneNear)
	got := b.schedule(t.Context(), t, b.demanding("claim:claim-0/gpus/two", list))
	if len(got.granted) != 3 || !strings.HasPrefix(got.granted[0], "claim-0/gpus/three ") {
		t.Errorf("the pod got %v (%s), want three devices", got.granted, got.why)
	}
	if allInLists {
		list.FirstAvailable[0].AllocationMode, list.FirstAvailable[0].Count = resourcev1.DeviceAllocationModeAll, 0
		list.FirstAvailable[1].Count = 1
		b.grants(t, b.demanding("claim:claim-0/gpus/two", list), "claim-0/gpus/three gpu.example.com/node/gpu-0")
	}
}

// Reading a class takes a second, and each of five alternatives is for all devices. One device is far. However many
// trials that would take, they end after four times what kube-scheduler allows itself for one.
func TestSlowAlternatives(t *testing.T) {
	if !allInLists {
		t.Skip("in this release, alternatives are not for all devices")
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.gpus(0, 1)
		b.near = steer.Near{NUMAs: []int{1}}
		list := resourcev1.DeviceRequest{Name: "gpus"}
		for i := range 5 {
			list.FirstAvailable = append(list.FirstAvailable, resourcev1.DeviceSubRequest{Name: fmt.Sprint("s", i),
				DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeAll})
		}
		pod := b.demanding("claim:claim-0", list)
		b.reading = func() { time.Sleep(time.Second) }
		start := time.Now()
		got := b.schedule(t.Context(), t, pod)
		if took := time.Since(start); got.why == "" || took > 40*time.Second {
			t.Errorf("the pod got %v (%s) after %v", got.granted, got.why, took)
		}
	})
}

// An extended resource that DRA serves is named by its class.
func TestAPodDemandsDevicesOfAnExtendedResource(t *testing.T) {
	needs(t, extended)
	b := newBench(t)
	b.gpus(1, 0)
	b.classes["gpu"].Spec.ExtendedResourceName = new("example.com/gpu")
	b.extended["example.com/gpu"] = "gpu"
	b.near = steer.Near{NUMAs: []int{1}}
	one, two := podWith("example.com/gpu", "1"), podWith("example.com/gpu", "2")
	one.Annotations = map[string]string{"tenon.sh/align": "class:gpu"}
	two.Annotations = one.Annotations
	b.isRefused(t, two, noneNear)
	b.grants(t, one, "extended/container-0-request-0 gpu.example.com/node/gpu-0")
}

// Beside an extended resource, a claim asks for all devices of the same class that match. One of them is far, and the
// others alone are not what the claim asks for.
func TestAPodDemandsAnExtendedResourceAndAllDevices(t *testing.T) {
	needs(t, extended)
	b := newBench(t)
	devices := b.gpus(1, 1, 0)
	b.classes["gpu"].Spec.ExtendedResourceName = new("example.com/gpu")
	b.extended["example.com/gpu"] = "gpu"
	b.near = steer.Near{NUMAs: []int{1}}
	for i := range devices {
		devices[i].Attributes["gpu.example.com/large"] = resourcev1.DeviceAttribute{BoolValue: new(i > 0)}
	}
	pod := podWith("example.com/gpu", "1")
	pod.Annotations = map[string]string{"tenon.sh/align": "class:gpu"}
	all := wanting("all", "gpu", 0)
	all.Exactly.Selectors = selector(`device.attributes["gpu.example.com"].large`)
	b.claim(pod, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{all}})
	b.isRefused(t, pod, noneNear)
	devices[2].Attributes["gpu.example.com/large"] = resourcev1.DeviceAttribute{BoolValue: new(false)}
	b.grants(t, pod, "claim-0/all gpu.example.com/node/gpu-1", "extended/container-0-request-0 gpu.example.com/node/gpu-0")
}

// Of a node without located devices, no device is known to be near. The devices of other requests may be anywhere.
func TestDemandsOnNodesWithoutLocatedDevices(t *testing.T) {
	b := newBench(t)
	b.gpus(0)[0].Attributes = nil
	b.near = steer.Near{NUMAs: []int{1}}
	b.isRefused(t, b.demanding("claim:claim-0/r", counted(1).Requests...),
		"the node has no device with a known NUMA node, as tenon.sh/align demands")
	pod := b.demanding("claim:claim-1", counted(1).Requests...)
	b.claim(pod, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wanting("r", "gpu", 1)}})
	held := b.claims["claim-1"]
	held.Status.Allocation = &resourcev1.AllocationResult{}
	b.grants(t, pod, "claim-0/r gpu.example.com/node/gpu-0")
	b.near.NUMAs = nil // the pod is nowhere
	b.grants(t, b.demanding("claim:claim-0/r", counted(1).Requests...), "claim-0/r gpu.example.com/node/gpu-0")
}

// What the annotation names and the claims do not have is refused, and demands nothing by accident.
func TestDemandsThatNameNoRequest(t *testing.T) {
	b := newBench(t)
	b.gpus(1)
	b.near = steer.Near{NUMAs: []int{1}}
	one := counted(1).Requests[0]
	b.isRefused(t, b.demanding("claim:claim-0/gpu", one),
		`annotation tenon.sh/align: "claim:claim-0/gpu" names no request of claim claim-0: it has r`)
	b.isRefused(t, b.demanding("claim:claim-0/r/large", one), `"claim:claim-0/r/large" names no request`)
	b.isRefused(t, b.demanding("class:nic", one), "annotation tenon.sh/align: the pod has no request for class nic")
}
