package steer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// A hostile node publishes a thousand NUMA nodes with a device each, and a pod asks for two devices. The plugin reads
// the pod's class a bounded number of times.
func TestAThousandNUMANodes(t *testing.T) {
	b := newBench(t)
	numas := make([]int64, 1000)
	for i := range numas {
		numas[i] = int64(i)
	}
	devices := b.gpus(numas...)
	for i := range devices {
		devices[i].Name = fmt.Sprintf("gpu-%d", i)
	}
	pod, reads := podNamed("two"), 0
	b.claim(pod, counted(2))
	b.reading = func() { reads++ }
	if got := b.schedule(t.Context(), t, pod); len(got.devices) != 2 || reads > 200 {
		t.Errorf("the pod got %v (%s) after %d reads of its class", got.devices, got.why, reads)
	}
}

// Eight NUMA nodes, as of two sockets with four each, have one or two devices. Three devices are on two NUMA nodes.
func TestPairsOfEightNUMANodes(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1, 2, 3, 4, 5, 6, 7, 6, 7)
	pod := podNamed("three")
	b.claim(pod, counted(3))
	b.gets(t, pod, "0", "6", "8")
}

// Reading a class takes a second, as an expression may that is hard to evaluate. All attempts on a node together end
// after three times what kube-scheduler allows itself.
func TestSlowClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.gpus(0, 1, 2, 3, 4, 5)
		pod := podNamed("many")
		b.claim(pod, counted(9))
		b.reading = func() { time.Sleep(time.Second) }
		start := time.Now()
		got := b.schedule(t.Context(), t, pod)
		if took := time.Since(start); got.why == "" || took > 30*time.Second {
			t.Errorf("the pod got %v (%s) after %v", got.devices, got.why, took)
		}
	})
}

// kube-scheduler lists slices in another order each time. As long as none has changed, they are not read again.
func TestSlicesInAnotherOrder(t *testing.T) {
	b := newBench(t)
	var nodes []fwk.NodeInfo
	for i := range 200 {
		name := fmt.Sprintf("node-%d", i)
		for k := range 3 {
			b.gpus(0, 1)
			s := b.slices[len(b.slices)-1]
			s.Name, s.Spec.NodeName = fmt.Sprintf("%s-%d", name, k), &name
			s.Spec.Pool.Name, s.Spec.Pool.ResourceSliceCount = name, 3
		}
		info := framework.NewNodeInfo()
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		nodes = append(nodes, info)
	}
	pod := podNamed("one")
	b.claim(pod, counted(1))
	r := rand.New(rand.NewPCG(1, 1))
	allocations := func(p fwk.PreFilterPlugin) float64 {
		return testing.AllocsPerRun(10, func() {
			r.Shuffle(len(b.slices), func(i, k int) { b.slices[i], b.slices[k] = b.slices[k], b.slices[i] })
			if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), pod, nodes); !status.IsSuccess() {
				t.Fatal(status.Message())
			}
		})
	}
	alone := allocations(b.plugin.DynamicResources)
	if both := allocations(b.plugin); both > 2*alone {
		t.Errorf("PreFilter allocates %v times, and kube-scheduler's plugin alone %v times", both, alone)
	}
}

// For a pod with extended resources, all claims of the cluster are listed once, and not for each node.
func TestClaimsAreListedOnce(t *testing.T) {
	needs(t, extended)
	b := newBench(t)
	nodes := b.fleet(20)
	b.classes["gpu"].Spec.ExtendedResourceName = new("example.com/gpu")
	b.extended["example.com/gpu"] = "gpu"
	cycle(t, b.plugin, podWith("example.com/gpu", "2"), nodes)
	if b.lists != 1 {
		t.Errorf("all claims were listed %d times", b.lists)
	}
}

// A pool has devices for all nodes, and some of another node.
func TestAPoolOfAllNodesAndOfAnotherNode(t *testing.T) {
	b := newBench(t)
	b.gpus(0, 1)
	for name, spec := range map[string]resourcev1.ResourceSliceSpec{
		"everywhere": {AllNodes: new(true)}, "elsewhere": {NodeName: new("another")}} {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		s.Spec.Driver, s.Spec.Devices = "net.example.com", []resourcev1.Device{{Name: name}}
		s.Spec.Pool = resourcev1.ResourcePool{Name: "net", Generation: 1, ResourceSliceCount: 2}
		b.slices = append(b.slices, s)
	}
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	pod := podNamed("both")
	spec := counted(1)
	spec.Requests[0].Exactly.Selectors = selector(`device.driver == "gpu.example.com"`)
	spec.Requests = append(spec.Requests, counted(1).Requests[0])
	spec.Requests[1].Name = "net"
	spec.Requests[1].Exactly.Selectors = selector(`device.driver == "net.example.com"`)
	b.claim(pod, spec)
	got := b.schedule(t.Context(), t, pod)
	if len(got.devices) != 2 || got.devices[0] != gpuNames("1")[0] {
		t.Errorf("the pod got %v (%s)", got.devices, got.why)
	}
}
