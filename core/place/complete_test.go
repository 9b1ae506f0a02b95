package place

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// Whoever looks at a node in the middle of an admission sees a part of what a pod will hold.
func TestHoldingsInTheMiddleOfAnAdmissionAreNotWhole(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 16Gi\ndevice acme.com/gpu a,b numa 0\n")
	if err != nil {
		t.Fatal(err)
	}
	r := Rules{Topology: TopologyRules{Policy: SingleNUMA}, CPU: CPURules{Static: true}, Memory: MemoryRules{Static: true}}
	pod := &Pod{QoS: Guaranteed, Containers: []Container{{Name: "c", MilliCPU: 2000, Memory: []Amount{{topo.Memory, 1 << 30}},
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
			t.Errorf("%+v are whole: %v", h, got)
		}
	}
	if pod.Complete(m, r, nil) {
		t.Error("nothing is whole")
	}
}
