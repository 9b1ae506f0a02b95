package place_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// What Place gives on a part of a machine is on that part, and a node on which the agent pins takes it as a decision.
func TestPlaceOnAPartOfTheMachine(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 8Gi\nnuma 2 socket 1 cpus 8-15 memory 8Gi\n" +
		"numa 5 socket 2 cpus 16-23 memory 8Gi")
	if err != nil {
		t.Fatal(err)
	}
	u := place.NewUsage(m, place.Rules{Arbiter: place.ByAgent, CPU: place.CPURules{Static: true,
		Reserved: idset.Of[idset.CPU](0)}, Topology: place.TopologyRules{Policy: place.BestEffort}})
	for _, c := range []struct {
		mask topo.Mask
		cpus int64
		fits bool
	}{{1, 7, true}, {1, 8, false}, {2, 8, true}, {4, 3, true}, {6, 16, true}, {6, 17, false}, {7, 23, true}} {
		pod := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c",
			MilliCPU: c.cpus * 1000, Memory: []place.Amount{{Kind: "memory", Bytes: 1 << 30}}}}}
		v := place.Place(u.On(c.mask), pod)
		if v.Fits() != c.fits {
			t.Errorf("%d CPUs on %b: fits %v (%v), want %v", c.cpus, c.mask, v.Fits(), v.Reasons, c.fits)
		}
		if !v.Fits() {
			continue
		}
		if got := place.Exclusive(m, v.Holdings); got&^c.mask != 0 {
			t.Errorf("%d CPUs on %b: they are on %b", c.cpus, c.mask, got)
		}
		if _, kept := place.Decided(u, pod, v.Holdings); !kept {
			t.Errorf("%d CPUs on %b: the node does not take %v", c.cpus, c.mask, v.Holdings)
		}
	}
}
