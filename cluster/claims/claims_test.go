package claims_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/cluster/claims"
)

const (
	numaNode = "resource.kubernetes.io/numaNode"
	pciBusID = "resource.kubernetes.io/pciBusID"
)

type attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute

func number(n int64) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{IntValue: &n} }
func text(s string) resourcev1.DeviceAttribute  { return resourcev1.DeviceAttribute{StringValue: &s} }

// slice is a ResourceSlice of node a, whose devices have these attributes.
func slice(name, driver string, generation, count int64, devices ...attributes) resourcev1.ResourceSlice {
	node := "a"
	s := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node,
		Pool: resourcev1.ResourcePool{Name: "a", Generation: generation, ResourceSliceCount: count}}
	for i, a := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("%s-%d", name, i), Attributes: a})
	}
	return s
}

// Drivers of today say in different ways where their devices are.
func TestNUMANodesOfDevices(t *testing.T) {
	found := func(node, address string) (int, bool) { return 3, node == "a" && address == "0000:3b:00.0" }
	for name, c := range map[string]struct {
		driver string
		has    attributes
		want   []int
		source string
		fault  string
	}{
		"standard": {"d.example.com", attributes{numaNode: number(1)}, []int{1}, numaNode, ""},
		"the standard one counts": {"dra.net", attributes{numaNode: number(1), "dra.net/numaNode": number(0)}, []int{1},
			numaNode, ""},
		"dra-driver-cpu": {"dra.cpu", attributes{"numaNodeID": number(0)}, []int{0},
			"dra.cpu/numaNodeID", ""},
		"dranet": {"dra.net", attributes{"dra.net/numaNode": number(1)}, []int{1},
			"dra.net/numaNode", ""},
		"sriov": {"sriovnetwork.k8snetworkplumbingwg.io", attributes{"dra.net/numaNode": number(1)}, []int{1},
			"dra.net/numaNode", ""},
		"sriov, unknown": {"sriovnetwork.k8snetworkplumbingwg.io", attributes{"dra.net/numaNode": number(-1)},
			nil, "", ""},
		"amd": {"gpu.amd.com", attributes{"numaNode": number(1)}, []int{1},
			"gpu.amd.com/numaNode", ""},
		"the own name of another": {"gpu.example.com", attributes{"numaNode": number(1)}, nil, "", ""},
		"nothing":                 {"d.example.com", attributes{"model": text("x")}, nil, "", ""},
		"by address": {"d.example.com", attributes{pciBusID: text("0000:3B:00.0")}, []int{3},
			pciBusID, ""},
		"by address, -1": {"d.example.com",
			attributes{"dra.net/numaNode": number(-1), pciBusID: text("0000:3b:00.0")}, []int{3},
			pciBusID, ""},
		"by another address": {"d.example.com", attributes{pciBusID: text("0000:3c:00.0")}, nil, "", ""},
		"a text":             {"d.example.com", attributes{numaNode: text("1")}, nil, "", "is no number"},
		"too large": {"d.example.com", attributes{numaNode: number(1 << 40)},
			nil, "", "outside 0..1023"},
		"standard -1 and own number": {"dra.net", attributes{numaNode: number(-1), "numaNode": number(1)}, []int{1},
			"dra.net/numaNode", ""},
	} {
		n := claims.Published([]resourcev1.ResourceSlice{slice("s", c.driver, 1, 1, c.has)}, found)["a"]
		d := n.Devices[0]
		if !slices.Equal(d.NUMAs, c.want) || d.Source != c.source {
			t.Errorf("%s: on NUMA nodes %v by %q, want %v by %q", name, d.NUMAs, d.Source, c.want, c.source)
		}
		if got := strings.Join(n.Problems, "\n"); !strings.Contains(got, c.fault) || (got == "") != (c.fault == "") {
			t.Errorf("%s: problems %q, want one with %q", name, got, c.fault)
		}
	}
}

// Of a pool the newest generation counts, whatever the order of the slices. One slice with a fault spoils no other.
func TestPools(t *testing.T) {
	at := func(n int64) attributes { return attributes{numaNode: number(n)} }
	network := slice("net", "net.example.com", 1, 1, at(0))
	network.Spec.NodeName, network.Spec.AllNodes = nil, new(true)
	all := []resourcev1.ResourceSlice{slice("new-b", "gpu.example.com", 2, 2, at(1)),
		slice("old", "gpu.example.com", 1, 1, at(0)),
		slice("new-a", "gpu.example.com", 2, 2, at(0), at(7777)), slice("part", "nic.example.com", 1, 2, at(1)), network}
	for range all {
		all = append(all[1:], all[0])
		got := claims.Published(all, nil)
		if len(got) != 1 {
			t.Fatalf("%d nodes have devices, want one", len(got))
		}
		var lines []string
		for _, d := range got["a"].Devices {
			lines = append(lines, fmt.Sprint(d.ID.String(), d.NUMAs))
		}
		want := []string{"gpu.example.com/a/new-a-0[0]", "gpu.example.com/a/new-a-1[]", "gpu.example.com/a/new-b-0[1]",
			"nic.example.com/a/part-0[1]"}
		if !slices.Equal(lines, want) {
			t.Errorf("devices\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
		if p := got["a"].Problems; len(p) != 2 || !strings.Contains(p[0], `device "new-a-1": NUMA node 7777`) ||
			!strings.Contains(p[1], "nic.example.com, pool a: 1 of 2 slices are there") {
			t.Errorf("problems %q", p)
		}
	}
}

// A driver that publishes without end harms itself alone.
func TestAPoolWithoutEnd(t *testing.T) {
	var all []resourcev1.ResourceSlice
	for i := range 100 {
		all = append(all, slice(fmt.Sprintf("s%03d", i), "many.example.com", 1, 100, make([]attributes, 128)...))
	}
	all = append(all, slice("one", "few.example.com", 1, 1, attributes{}))
	n := claims.Published(all, nil)["a"]
	if len(n.Devices) != 4096+1 || n.Devices[0].Driver != "few.example.com" {
		t.Errorf("%d devices, the first of %s", len(n.Devices), n.Devices[0].Driver)
	}
	if len(n.Problems) == 0 || !strings.Contains(n.Problems[0], "more than 4096 devices") {
		t.Errorf("problems %q", n.Problems)
	}
}

func TestAllocatedClaims(t *testing.T) {
	claim := resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "gpus"}}
	waiting := claim
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "1"},
			{Driver: "d", Pool: "p", Device: "0"}, {Driver: "d", Pool: "p", Device: "2", AdminAccess: new(true)}}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "u"},
		{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "g"}}
	got := claims.Allocated([]resourcev1.ResourceClaim{waiting, claim})
	if len(got) != 1 || got[0].Name != "gpus" || !slices.Equal(got[0].Pods, []string{"u"}) ||
		!slices.Equal(got[0].Devices, []claims.ID{{"d", "p", "1"}, {"d", "p", "0"}}) {
		t.Errorf("allocated claims %+v", got)
	}
}

// A node may write slices with its own name, and any driver, pool and generation. They harm no other node. A pool of
// several nodes counts the slices of all.
func TestASliceOfAnotherNodeHarmsNoPool(t *testing.T) {
	for name, c := range map[string]struct{ generation, count, own int64 }{
		"newer":           {99, 7, 1},
		"same generation": {1, 7, 1},
		"one pool of two": {1, 2, 2},
	} {
		own := slice("own", "gpu.example.com", 1, c.own, attributes{numaNode: number(1)})
		foreign := slice("a-foreign", "gpu.example.com", c.generation, c.count, attributes{numaNode: number(0)})
		foreign.Spec.NodeName = new("b")
		got := claims.Published([]resourcev1.ResourceSlice{own, foreign}, nil)["a"]
		if got == nil || len(got.Devices) != 1 || len(got.Problems) > 0 {
			t.Errorf("%s: node a has %+v, want its device and no problem", name, got)
		}
	}
}

// What a program keeps of slices and claims gives the same as the whole objects, without what drivers say beyond that.
func TestSlimObjectsGiveTheSame(t *testing.T) {
	all := []resourcev1.ResourceSlice{
		slice("a", "dra.cpu", 1, 2, attributes{"numaNodeID": number(0), "cores": number(4)},
			attributes{"dra.net/numaNode": number(1)}),
		slice("b", "d.example.com", 1, 1, attributes{numaNode: text("one")}, attributes{numaNode: number(1)},
			attributes{pciBusID: text("0000:3B:00.0")}, nil, nil),
		slice("c", "net.example.com", 1, 1, attributes{numaNode: number(0)}),
	}
	all[1].Spec.Devices[3].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu"}}
	all[1].Spec.Devices[4].Taints = []resourcev1.DeviceTaint{{Key: "x", Effect: resourcev1.DeviceTaintEffectNoExecute}}
	all[2].Spec.NodeName, all[2].Spec.AllNodes = nil, new(true)
	var slim []resourcev1.ResourceSlice
	for i := range all {
		slim = append(slim, *claims.SlimSlice(&all[i]))
	}
	at := func(string, string) (int, bool) { return 1, true }
	if want, got := claims.Published(all, at), claims.Published(slim, at); !reflect.DeepEqual(want, got) ||
		len(want["a"].Devices) != 7 || len(want["a"].Problems) != 2 {
		t.Errorf("slim slices give\n%+v\nwhole ones\n%+v", got["a"], want["a"])
	}
	if strings.Contains(fmt.Sprint(slim), "cores") || !claims.NeedFunctions(slim) || claims.NeedFunctions(slim[:1]) {
		t.Errorf("slim slices are %v", slim)
	}
	var c resourcev1.ResourceClaim
	c.Spec.Devices.Config = []resourcev1.DeviceClaimConfiguration{{Requests: []string{"secret"}}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "x"},
		{Driver: "d", Pool: "p", Device: "y", AdminAccess: new(true)}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
	less := claims.SlimClaim(&c)
	want, got := claims.Allocated([]resourcev1.ResourceClaim{c}), claims.Allocated([]resourcev1.ResourceClaim{*less})
	if !reflect.DeepEqual(want, got) || strings.Contains(fmt.Sprint(less), "secret") {
		t.Errorf("the slim claim is %+v", less)
	}
}
