package steer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

const gpuDriver = "gpu.example.com"

// gpus adds a class, and a slice of the node with devices on these NUMA nodes.
func (b *bench) gpus(numas ...int64) []resourcev1.Device {
	b.classes["gpu"] = &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: gpuDriver, NodeName: new("node"),
		Pool: resourcev1.ResourcePool{Name: "node", Generation: 1, ResourceSliceCount: 1}}
	for i, numa := range numas {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: "gpu-" + string(rune('0'+i)),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"resource.kubernetes.io/numaNode": {IntValue: &numa}}})
	}
	b.slices = append(b.slices, s)
	return s.Spec.Devices
}

func idOf(device string) structured.DeviceID {
	return structured.MakeDeviceID(gpuDriver, "node", device)
}

func podNamed(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "pod"}}
}

func counted(n int64) resourcev1.DeviceClaim {
	return resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n}}}}
}

func gpuNames(ids ...string) (out []string) {
	for _, id := range ids {
		out = append(out, gpuDriver+"/node/gpu-"+id)
	}
	return out
}

// gets fails the test unless a pod gets these devices.
func (b *bench) gets(t *testing.T, pod *v1.Pod, ids ...string) {
	t.Helper()
	if got := b.schedule(t.Context(), t, pod); !slices.Equal(got.devices, gpuNames(ids...)) {
		t.Errorf("pod %s got %v (%s), want %v", pod.Name, got.devices, got.why, gpuNames(ids...))
	}
}

// isRefused fails the test unless a pod is refused with this reason.
func (b *bench) isRefused(t *testing.T, pod *v1.Pod, why string) {
	t.Helper()
	if got := b.schedule(t.Context(), t, pod); !strings.Contains(got.why, why) || len(got.devices) > 0 {
		t.Errorf("pod %s got %v (%s), want to be refused: %s", pod.Name, got.devices, got.why, why)
	}
}

// An extended resource that DRA serves has no claim before the pod is bound. Its devices are chosen like others.
func TestExtendedResourcesThatDRAServes(t *testing.T) {
	needs(t, extended)
	b := newBench(t)
	b.gpus(0, 0, 1, 1)
	b.classes["gpu"].Spec.ExtendedResourceName = new("example.com/gpu")
	b.extended["example.com/gpu"] = "gpu"
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	b.gets(t, podWith("example.com/gpu", "2"), "2", "3")
	b.pending = map[types.UID]*resourcev1.AllocationResult{}
	b.isRefused(t, podWith("example.com/gpu", "3"), "the pod's claims get no devices on NUMA node 1")
	b.isRefused(t, podWith("example.com/gpu", "5"), "cannot allocate all claims")
}

// podWith returns a pod with a number of an extended resource.
func podWith(name v1.ResourceName, n string) *v1.Pod {
	pod, list := podNamed("with-"+n), v1.ResourceList{name: resource.MustParse(n)}
	pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}
	return pod
}

// A claim that was allocated before lies where it lies.
func TestAClaimThatOtherPodsUse(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1)
	held := func(device string) *v1.Pod {
		pod := podNamed("shares-" + device)
		b.claim(pod, counted(1))
		c := b.claims[*pod.Spec.ResourceClaims[0].ResourceClaimName]
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "r", Driver: gpuDriver, Pool: "node", Device: device}}}}
		return pod
	}
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	b.gets(t, held("gpu-1"))
	b.isRefused(t, held("gpu-0"), "the pod's claims get no devices on NUMA node 1")
	b.near.Must = false
	b.gets(t, held("gpu-0"))
}

// A pod may demand that the devices of a driver are near. Those of other drivers may be elsewhere.
func TestAPodDemandsDevicesOfADriver(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1, 1)
	b.classes["gpu"].Spec.Selectors = selector(`device.driver == "gpu.example.com"`)
	b.publishCPUs(false) // cpu-0 to cpu-3 on NUMA node 0, cpu-1 taken
	near := func(drivers string, gpus, cpus int64) *v1.Pod {
		pod := podNamed("demands")
		pod.Annotations = map[string]string{"tenon.sh/align": drivers}
		b.pending = map[types.UID]*resourcev1.AllocationResult{}
		b.claims = map[string]*resourcev1.ResourceClaim{}
		b.claim(pod, counted(gpus))
		b.claim(pod, cpuClaim(false, cpus))
		return pod
	}
	b.near = steer.Near{NUMAs: []int{0}}
	got := b.schedule(t.Context(), t, near("driver:gpu.example.com", 1, 4))
	want := append([]string{"dra.cpu/node/cpu-0", "dra.cpu/node/cpu-2", "dra.cpu/node/cpu-3", "dra.cpu/node/cpu-4"},
		gpuNames("0")...)
	if !slices.Equal(got.devices, want) {
		t.Errorf("the pod got %v (%s), want %v", got.devices, got.why, want)
	}
	const none = "the pod's claims get no devices on NUMA node 0, where its CPUs and memory would be, " +
		"as tenon.sh/align demands"
	b.isRefused(t, near("driver:gpu.example.com", 2, 1), none)
	b.isRefused(t, near("driver:dra.cpu", 1, 4), none)
	b.isRefused(t, near("driver:nic.example.com", 1, 1),
		"no device of driver nic.example.com has a known NUMA node, as tenon.sh/align demands")
	b.near.NUMAs = nil // the pod is nowhere
	if got := b.schedule(t.Context(), t, near("driver:gpu.example.com", 3, 1)); len(got.devices) != 4 {
		t.Errorf("the pod got %v (%s), want four devices", got.devices, got.why)
	}
}

// Where the scheduler decides which CPUs a pod gets, it may be where its devices are.
func TestCPUsAndDevicesAreChosenTogether(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1, 2)
	b.taken.Insert(idOf("gpu-0"))
	pod := podNamed("together")
	b.claim(pod, counted(1))
	for name, c := range map[string]struct {
		can  [][]int
		want string
	}{
		"one place":         {[][]int{{1}}, "1"},
		"the better of two": {[][]int{{2}, {1}}, "2"},
		"only the second":   {[][]int{{3}, {1}}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			b.near = steer.Near{NUMAs: []int{0}, Must: true, Elsewhere: func() [][]int { return c.can }}
			numa := int(c.want[0] - '0')
			b.moved = &steer.Near{NUMAs: []int{numa}, Must: true}
			cs := framework.NewCycleState()
			got := b.scheduleIn(t.Context(), t, cs, pod)
			if !slices.Equal(got.devices, gpuNames(c.want)) || !slices.Equal(steer.Chosen(cs, "node"), []int{numa}) {
				t.Errorf("the pod got %v (%s) and is to be on %v, want gpu-%s", got.devices, got.why,
					steer.Chosen(cs, "node"), c.want)
			}
			b.pending = map[types.UID]*resourcev1.AllocationResult{}
		})
	}
	// Where devices are near at once, the pod stays.
	b.taken.Delete(idOf("gpu-0"))
	b.moved = nil
	cs := framework.NewCycleState()
	got := b.scheduleIn(t.Context(), t, cs, pod)
	if !slices.Equal(got.devices, gpuNames("0")) || steer.Chosen(cs, "node") != nil {
		t.Errorf("the pod got %v (%s) and is to be on %v", got.devices, got.why, steer.Chosen(cs, "node"))
	}
}

// Between Filter and Reserve, other pods may take the CPUs beside the devices.
func TestOtherPodsComeFirst(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1)
	b.near, b.moved = steer.Near{NUMAs: []int{1}, Must: true}, &steer.Near{NUMAs: []int{0}, Must: true}
	pod := podNamed("late")
	b.claim(pod, counted(1))
	b.isRefused(t, pod, "device gpu.example.com/node/gpu-1 is on NUMA node 1, and the pod's CPUs and memory "+
		"will be on NUMA node 0, since other pods came first")
	if len(b.pending) > 0 || b.undone != 1 {
		t.Errorf("%d allocations are pending, and %d pods are tried again; want 0 and 1", len(b.pending), b.undone)
	}
	b.moved = nil
	b.gets(t, pod, "1")
	if !slices.Equal(b.kept, []int{1}) {
		t.Errorf("the pod has to stay on NUMA nodes %v, want 1, where its device is", b.kept)
	}
}

// A device without NUMA node neither helps nor hinders; a pod about which nothing is known gets what kube-scheduler's
// plugin chooses.
func TestWhatIsNotKnown(t *testing.T) {
	b := newBench(t)
	devices := b.gpus(0, 1, 1)
	devices[0].Attributes = nil
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("two")
	b.claim(pod, counted(2))
	b.gets(t, pod, "0", "1")
	b.pending = map[types.UID]*resourcev1.AllocationResult{}
	b.near = steer.Near{Unknown: true, NUMAs: []int{7}, Must: true}
	b.gets(t, pod, "0", "1")
}

// A partition takes from counters of its device, and the partitions on other NUMA nodes stay out of reach without
// their counters being forgotten.
func TestPartitions(t *testing.T) {
	needs(t, partitions)
	b := newBench(t)
	devices := b.gpus(0, 0, 1, 1)
	b.slices[0].Spec.Pool.ResourceSliceCount = 2
	for i := range devices {
		set := []string{"card-0", "card-0", "card-1", "card-1"}[i]
		devices[i].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: set,
			Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("40Gi")}}}}
	}
	counters := b.slices[0].DeepCopy()
	counters.Name, counters.Spec.Devices = "counters", nil
	for _, set := range []string{"card-0", "card-1"} {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourcev1.CounterSet{Name: set,
			Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("60Gi")}}})
	}
	b.slices = append(b.slices, counters)
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("one")
	b.claim(pod, counted(1))
	b.gets(t, pod, "2")
	// The card has 20Gi left, too few for the other partition.
	b.pending = map[types.UID]*resourcev1.AllocationResult{}
	b.taken.Insert(structured.MakeDeviceID(gpuDriver, "node", "gpu-2"))
	b.isRefused(t, pod, "the pod's claims get no devices on NUMA node 1")
	b.near.NUMAs = []int{0}
	b.gets(t, pod, "0")
}

// A request with admin access gets devices that other claims hold.
func TestAdminAccess(t *testing.T) {
	needs(t, admins)
	b := newBench(t)
	b.gpus(0, 1)
	for _, name := range []string{"gpu-0", "gpu-1"} {
		b.taken.Insert(structured.MakeDeviceID(gpuDriver, "node", name))
	}
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("monitor")
	spec := counted(0)
	spec.Requests[0].Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
	spec.Requests[0].Exactly.AdminAccess = new(true)
	b.claim(pod, spec)
	b.gets(t, pod, "0", "1")
}

// Devices that several claims share are near as well.
func TestSharedDevices(t *testing.T) {
	needs(t, capacities)
	b := newBench(t)
	for i := range b.gpus(0, 1) {
		b.slices[0].Spec.Devices[i].AllowMultipleAllocations = new(true)
	}
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("part")
	b.claim(pod, counted(1))
	b.gets(t, pod, "1")
	all := podNamed("all")
	spec := counted(0)
	spec.Requests[0].Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
	b.claim(all, spec)
	b.pending = map[types.UID]*resourcev1.AllocationResult{}
	b.isRefused(t, all, "the pod's claims get no devices on NUMA node 1")
}

// A hostile node publishes devices without end, or what is no number. It is left to kube-scheduler's plugin.
func TestHostileSlices(t *testing.T) {
	b := newBench(t)
	devices := b.gpus(0, 1)
	devices[0].Attributes["resource.kubernetes.io/numaNode"] = resourcev1.DeviceAttribute{StringValue: new("99999999999")}
	devices[1].Attributes["resource.kubernetes.io/numaNode"] = resourcev1.DeviceAttribute{IntValue: new(int64(-5))}
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("one")
	b.claim(pod, counted(1))
	b.gets(t, pod, "0")
	b.clear()
	numas := make([]int64, 10_000)
	many := b.gpus(numas...)
	for i := range many {
		many[i].Name = fmt.Sprintf("gpu-%d", i)
	}
	pod = podNamed("one")
	b.claim(pod, counted(1))
	if got := b.schedule(t.Context(), t, pod); got.why == "" && len(got.devices) != 1 {
		t.Errorf("the pod got %v", got.devices)
	}
}

// A driver may give only the address of a device. Where its PCI function is, the node's agent reports, perhaps later.
func TestDevicesByTheirAddress(t *testing.T) {
	b := newBench(t)
	devices := b.gpus(0, 0)
	for i := range devices {
		devices[i].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"resource.kubernetes.io/pciBusID": {StringValue: new([]string{"0000:1A:00.0", "0000:b1:00.0"}[i])}}
	}
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("one")
	b.claim(pod, counted(1))
	b.gets(t, pod, "0")
	b.pending = map[types.UID]*resourcev1.AllocationResult{}
	l := &v1alpha1.NodeLayout{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	l.Machine.Functions = []v1alpha1.Function{{Address: "0000:1a:00.0", NUMAs: "0"}, {Address: "0000:b1:00.0", NUMAs: "1"}}
	b.functions.Report(l)
	b.gets(t, pod, "1")
	// The firmware numbers the NUMA nodes anew.
	b.pending = map[types.UID]*resourcev1.AllocationResult{}
	moved := l.DeepCopy()
	moved.Machine.Functions[0].NUMAs, moved.Machine.Functions[1].NUMAs = "1", "0"
	b.functions.Report(moved)
	b.gets(t, pod, "0")
}

// On a node of dra-driver-cpu, a claim has the CPUs, and the kubelet gives none. The GPU comes from the NUMA node that
// has enough of them, though neither claim names it. The driver publishes single CPUs, or one device for each NUMA node
// whose CPUs claims share.
func TestCPUsFromClaims(t *testing.T) {
	for name, shared := range map[string]bool{"single CPUs": false, "NUMA nodes": true} {
		t.Run(name, func(t *testing.T) {
			if shared {
				needs(t, capacities)
			}
			b := newBench(t)
			b.gpus(0, 1)
			b.publishCPUs(shared)
			pod := podNamed("worker")
			b.claim(pod, counted(1))
			b.claim(pod, cpuClaim(shared, 4))
			got := b.schedule(t.Context(), t, pod)
			want := append(gpuNames("1"), "dra.cpu/node/cpu-4", "dra.cpu/node/cpu-5", "dra.cpu/node/cpu-6",
				"dra.cpu/node/cpu-7")
			if shared {
				want = append(gpuNames("1"), "dra.cpu/node/numa-1")
			}
			slices.Sort(want)
			if !slices.Equal(got.devices, want) {
				t.Errorf("the pod got %v (%s), want %v", got.devices, got.why, want)
			}
		})
	}
}

// publishCPUs adds the CPUs of two NUMA nodes, four each. A CPU of the first one is taken.
func (b *bench) publishCPUs(shared bool) {
	b.classes["cpu"] = &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "cpu"}}
	b.classes["cpu"].Spec.Selectors = selector(`device.driver == "dra.cpu"`)
	b.classes["gpu"].Spec.Selectors = selector(`device.driver == "gpu.example.com"`)
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "cpus"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: "dra.cpu", NodeName: new("node"),
		Pool: resourcev1.ResourcePool{Name: "node", Generation: 1, ResourceSliceCount: 1}}
	add := func(name string, numa int64) *resourcev1.Device {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"dra.cpu/numaNodeID": {IntValue: &numa}}})
		return &s.Spec.Devices[len(s.Spec.Devices)-1]
	}
	for numa := range int64(2) {
		if shared {
			d := add(fmt.Sprintf("numa-%d", numa), numa)
			d.AllowMultipleAllocations = new(true)
			d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"dra.cpu/cpu": {Value: *resource.NewQuantity(3+numa, resource.DecimalSI)}}
			continue
		}
		for cpu := range int64(4) {
			add(fmt.Sprintf("cpu-%d", 4*numa+cpu), numa)
		}
	}
	b.taken.Insert(structured.MakeDeviceID("dra.cpu", "node", "cpu-1"))
	b.slices = append(b.slices, s)
}

func cpuClaim(shared bool, n int64) resourcev1.DeviceClaim {
	out := counted(n)
	e := out.Requests[0].Exactly
	e.DeviceClassName = "cpu"
	if shared {
		e.Count = 1
		e.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			"dra.cpu/cpu": *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	return out
}
