package place

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// An observation in the middle of an admission has only a part of what the pod will hold.
func TestHoldingsInTheMiddleOfAnAdmissionAreIncomplete(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 16Gi\ndevice acme.com/gpu a,b numa 0\n")
	if err != nil {
		t.Fatal(err)
	}
	r := Rules{Topology: TopologyRules{Policy: SingleNUMA}, CPU: CPURules{Static: true}, Memory: MemoryRules{Static: true}}
	pod := &Pod{QoS: Guaranteed, Containers: []Container{{Name: "c", MilliCPU: 2000,
		Memory:  []Amount{{Kind: topo.Memory, Bytes: 1 << 30}},
		Devices: []Count{{"acme.com/gpu", 1}, {"acme.com/unknown", 1}}}}}
	h := Holding{Container: "c", Devices: []DeviceBlock{{Resource: "acme.com/gpu", IDs: []string{"a"}, NUMAs: 1}}}
	for _, step := range []struct {
		holds func()
		whole bool
	}{
		{func() { h.CPUs = idset.Of[idset.CPU](1) }, false},
		{func() { h.CPUs = idset.Of[idset.CPU](1, 2) }, false},
		{func() { h.Memory = []Block{{topo.Memory, 1, 1 << 30}} }, true},
		{func() { h.Devices = nil }, false},
	} {
		step.holds()
		if got := pod.Complete(m, r, []Holding{h}); got != step.whole {
			t.Errorf("%+v: complete is %v", h, got)
		}
	}
	if pod.Complete(m, r, nil) {
		t.Error("no holdings are complete")
	}
}

// The memory manager takes back what an init container leaves, so an agent need not see it. CPUs and devices of init
// containers stay with the pod.
func TestCompleteIgnoresMemoryOfInitContainers(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 16Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	r := Rules{CPU: CPURules{Static: true}, Memory: MemoryRules{Static: true}}
	memory := []Amount{{Kind: topo.Memory, Bytes: 1 << 30}}
	pod := &Pod{QoS: Guaranteed, Containers: []Container{{Name: "setup", Kind: Init, MilliCPU: 1000, Memory: memory},
		{Name: "side", Kind: Sidecar, MilliCPU: 1000, Memory: memory}, {Name: "c", MilliCPU: 1000, Memory: memory}}}
	holding := func(name string, cpu idset.CPU, memory bool) Holding {
		h := Holding{Container: name, CPUs: idset.Of(cpu)}
		if memory {
			h.Memory = []Block{{topo.Memory, 1, 1 << 30}}
		}
		return h
	}
	for _, c := range []struct {
		setup, side, app bool // whether memory is seen
		whole            bool
	}{{true, true, true, true}, {false, true, true, true}, {false, false, true, false}, {false, true, false, false}} {
		hs := []Holding{holding("setup", 1, c.setup), holding("side", 2, c.side), holding("c", 3, c.app)}
		if got := pod.Complete(m, r, hs); got != c.whole {
			t.Errorf("%+v: complete is %v", c, got)
		}
	}
	if pod.Complete(m, r, []Holding{holding("side", 2, true), holding("c", 3, true)}) {
		t.Error("complete without the CPUs of the init container")
	}
}
