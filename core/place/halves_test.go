package place

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// TestQuickAnswersOnHalfReservedCores tries every set of held CPUs of a small machine with full-pcpus-only and half
// reserved cores: Fits agrees with Place for pods that are aligned as a whole.
func TestQuickAnswersOnHalfReservedCores(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-2/6-8 memory 8Gi\nnuma 1 socket 1 cpus 3-5/9-11 memory 8Gi")
	if err != nil {
		t.Fatal(err)
	}
	app := func(cpus int64) Container { return Container{MilliCPU: 1000 * cpus} }
	pods := []*Pod{
		{QoS: Guaranteed, Containers: []Container{app(2), app(2)}},
		{QoS: Guaranteed, Containers: []Container{app(2), app(2), app(2)}},
		{QoS: Guaranteed, Containers: []Container{app(4), app(2)}},
	}
	for _, reserved := range [][]idset.CPU{{0}, {0, 3}, {0, 7}} {
		for policy := BestEffort; policy <= SingleNUMA; policy++ {
			empty := NewUsage(m, Rules{Topology: TopologyRules{Policy: policy, Scope: PerPod},
				CPU: CPURules{Static: true, FullPCPUsOnly: true, Reserved: idset.Of(reserved...)}})
			for held := range 1 << 12 {
				var h Holding
				for id := range 12 {
					if held>>id&1 != 0 {
						h.CPUs = h.CPUs.With(idset.CPU(id))
					}
				}
				u := empty.Hold(h)
				for _, p := range pods {
					if v := Place(u, p); Fits(u, p) != v.Fits() {
						t.Fatalf("%s, reserved %v, held %s, %d containers: Fits says %v, Place %+v", policy, reserved, h.CPUs,
							len(p.Containers), !v.Fits(), v)
					}
				}
			}
		}
	}
}
