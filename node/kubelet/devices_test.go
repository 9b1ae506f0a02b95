package kubelet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

func gpu(id string, numa idset.NUMA) kubelet.Device {
	return kubelet.Device{Resource: "x.io/gpu", ID: id, NUMAs: idset.Of(numa)}
}

func holder(devices ...kubelet.Device) kubelet.Listed {
	return kubelet.Listed{Namespace: "ns", Name: "p", Containers: []kubelet.ListedContainer{
		{Name: "main", Devices: devices}}}
}

// Devices that the kubelet counts and does not list are unhealthy; those that it neither counts nor lists are gone.
func TestUnhealthyDevicesAreThoseThatTheNodeCounts(t *testing.T) {
	healthy := []kubelet.Device{gpu("g1", 0), gpu("g2", 4)}
	for _, c := range []struct {
		what       string
		o          kubelet.Observation
		want, says string
	}{
		{"all healthy", kubelet.Observation{Capacity: map[string]int64{"x.io/gpu": 2}}, "g1 g2", ""},
		{"one unhealthy, never seen", kubelet.Observation{Capacity: map[string]int64{"x.io/gpu": 3}}, "g1 g2",
			"2 devices are known as healthy, 1 more are unhealthy; the NUMA nodes of 0 of"},
		{"one unhealthy, seen before", kubelet.Observation{Capacity: map[string]int64{"x.io/gpu": 3},
			Known: []kubelet.Device{gpu("g0", 4), gpu("g1", 0)}},
			"!g0 g1 g2", "1 more are unhealthy; the NUMA nodes of 1 of"},
		{"one unhealthy, held", kubelet.Observation{Capacity: map[string]int64{"x.io/gpu": 3},
			Listed: []kubelet.Listed{holder(gpu("g3", 4))},
			Known:  []kubelet.Device{gpu("g0", 4)}}, "g1 g2 !g3", "1 more are unhealthy"},
		{"held by a container, and its plugin has it no longer",
			kubelet.Observation{Capacity: map[string]int64{"x.io/gpu": 2},
				Listed: []kubelet.Listed{holder(gpu("g1", 0), gpu("g3", 4))}}, "g1 g2", ""},
		{"replaced by another", kubelet.Observation{Capacity: map[string]int64{"x.io/gpu": 2},
			Known: []kubelet.Device{gpu("g0", 4)}}, "g1 g2", ""},
		{"the Node's status is late", kubelet.Observation{Capacity: map[string]int64{"x.io/gpu": 0},
			Known: []kubelet.Device{gpu("g0", 4)}}, "g1 g2", ""},
		{"the Node does not say", kubelet.Observation{Listed: []kubelet.Listed{holder(gpu("g3", 4))}}, "g1 g2 !g3",
			"1 more are unhealthy"},
	} {
		c.o.Allocatable = healthy
		m, err := c.o.Machine(twoNUMAs(t))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range m.Resources()[0].Devices {
			mark := ""
			if d.Unhealthy {
				mark = "!"
			}
			got = append(got, mark+d.ID)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: devices are %s, want %s", c.what, s, c.want)
		}
		why := c.o.Unhealthy(m, place.Rules{Topology: place.TopologyRules{Policy: place.Restricted}})
		if (len(why) > 0) != (c.says != "") || len(why) > 0 && (why[0].Code != state.UnhealthyDevices ||
			!strings.Contains(why[0].Message, c.says)) {
			t.Errorf("%s: reasons are %v, want %q", c.what, why, c.says)
		}
		if why := c.o.Unhealthy(m, place.Rules{}); len(why) > 0 {
			t.Errorf("%s: without a topology policy hints count for nothing, and the reasons are %v", c.what, why)
		}
	}
}

// Each of many resources may have fewer devices than the most, and all together more than a machine can have.
func TestDevicesThatAreTooManyTogether(t *testing.T) {
	var o kubelet.Observation
	for k := range 12 {
		for i := range topo.MaxDevices - 1 {
			o.Allocatable = append(o.Allocatable, kubelet.Device{Resource: fmt.Sprintf("x.io/r%02d", k),
				ID: fmt.Sprintf("device-%04d", i), NUMAs: idset.Of[idset.NUMA](0)})
		}
	}
	m, err := o.Machine(twoNUMAs(t))
	if err != nil {
		t.Fatal(err)
	}
	omitted := o.Omitted(twoNUMAs(t))
	if len(omitted) == 0 || len(m.Resources())+len(omitted) != 12 || omitted["x.io/r00"] != "" {
		t.Errorf("the machine has %d resources, %v are left out", len(m.Resources()), omitted)
	}
	if again := o.Omitted(m); fmt.Sprint(again) != fmt.Sprint(omitted) {
		t.Errorf("with the devices, %v are left out, want %v", again, omitted)
	}
}

// Two NUMA nodes of four devices each, with one failed on each: the kubelet counts eight, computes that four fit on one
// NUMA node, and refuses a pod that would get three and one.
func TestFreeUnhealthyDevicesDecide(t *testing.T) {
	o := kubelet.Observation{Capacity: map[string]int64{"x.io/gpu": 8}}
	for i := range 8 {
		d := gpu(fmt.Sprint("g", i), idset.NUMA(i/4*4))
		if o.Known = append(o.Known, d); i%4 > 0 {
			o.Allocatable = append(o.Allocatable, d)
		}
	}
	m, err := o.Machine(twoNUMAs(t))
	if err != nil {
		t.Fatal(err)
	}
	u := place.NewUsage(m, place.Rules{Topology: place.TopologyRules{Policy: place.Restricted}})
	p := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{
		{Name: "main", Devices: []place.Count{{Resource: "x.io/gpu", N: 4}}}}}
	if v := place.Place(u, p); v.Fits() {
		t.Errorf("four devices of six fit, as %v; the kubelet says TopologyAffinityError", v.Holdings)
	}
}

// A NUMA node with an id of 64 or more does not fit into the kubelet's masks.
func TestMachinesThatNoKubeletCanUse(t *testing.T) {
	wide, err := topo.ParseMachine("numa 0 cpus 0-3 memory 16Gi\nnuma 250 memory 16Gi\nnuma 255 memory 16Gi")
	if err != nil {
		t.Fatal(err)
	}
	hints, memory := place.Rules{Topology: place.TopologyRules{Policy: place.BestEffort}},
		place.Rules{Memory: place.MemoryRules{Static: true}}
	for _, r := range []place.Rules{hints, memory} {
		why, is := kubelet.Unusable(wide, r)
		if !is || why.Code != state.KubeletUnusable || !strings.Contains(why.Message, "255") ||
			!strings.Contains(why.Message, "topologyManagerPolicy none") {
			t.Errorf("%v, %+v", is, why)
		}
		if _, is := kubelet.Unusable(twoNUMAs(t), r); is {
			t.Error("a machine with the NUMA nodes 0 and 4 is not usable")
		}
	}
	if why, is := kubelet.Unusable(wide, place.Rules{}); is {
		t.Errorf("without managers: %s", why.Message)
	}
}
