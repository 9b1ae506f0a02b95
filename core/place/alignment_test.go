package place

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// square has four NUMA nodes in two sockets.
const square = `
numa 0 socket 0 cpus 0-3 memory 8Gi
numa 1 socket 0 cpus 4-7 memory 8Gi
numa 2 socket 1 cpus 8-11 memory 8Gi
numa 3 socket 1 cpus 12-15 memory 8Gi
distances 10 12 32 32
distances 12 10 32 32
distances 32 32 10 12
distances 32 32 12 10
`

func TestAlignments(t *testing.T) {
	m, err := topo.ParseMachine(square)
	if err != nil {
		t.Fatal(err)
	}
	holds := func(kind Kind, name, cpus string) Holding {
		set, err := idset.Parse[idset.CPU](cpus)
		if err != nil {
			t.Fatal(err)
		}
		return Holding{Container: name, Kind: kind, CPUs: set}
	}
	pod := func(cpus ...int64) *Pod {
		p := &Pod{QoS: Guaranteed}
		for i, n := range cpus {
			p.Containers = append(p.Containers, Container{Name: string(rune('a' + i)), MilliCPU: n * 1000})
		}
		return p
	}
	near, one := TopologyRules{Policy: BestEffort}, func(cpus string) []Holding { return []Holding{holds(App, "a", cpus)} }
	for name, c := range map[string]struct {
		rules TopologyRules
		pod   *Pod
		held  []Holding
		want  []bool
		apart int64
	}{
		"on one NUMA node":                   {near, pod(2), one("0-1"), []bool{false}, 10},
		"on two where one would do":          {near, pod(2), one("3-4"), []bool{true}, 12},
		"no policy":                          {TopologyRules{}, pod(2), one("3-4"), []bool{true}, 12},
		"too large for one NUMA node":        {near, pod(6), one("0-5"), []bool{false}, 12},
		"on two that are far from the other": {near, pod(6), one("0-3,8-9"), []bool{true}, 32},
		"every container by itself": {near, pod(2, 2), []Holding{holds(App, "a", "0-1"), holds(App, "b", "8-9")},
			[]bool{false, false}, 10},
		"the pod as a whole": {TopologyRules{Policy: BestEffort, Scope: PerPod}, pod(2, 2),
			[]Holding{holds(App, "a", "0-1"), holds(App, "b", "8-9")}, []bool{true}, 32},
		"an init container has ended": {near, pod(2), []Holding{holds(Init, "i", "3-4")}, nil, 0},
		"larger than the machine":     {near, pod(20), one("3-4"), []bool{false}, 12},
	} {
		t.Run(name, func(t *testing.T) {
			u := NewUsage(m, Rules{Topology: c.rules, CPU: CPURules{Static: true, Reserved: m.CoreCPUs(15)}})
			got := Alignments(u.Ideal(), c.pod, c.held)
			if len(got) != len(c.want) {
				t.Fatalf("%d alignments, want %d", len(got), len(c.want))
			}
			for i, a := range got {
				if a.Misaligned() != c.want[i] {
					t.Errorf("%s: held %+v, best %+v: misaligned is %v, want %v", a.Container, a.Held, a.Best,
						a.Misaligned(), c.want[i])
				}
			}
			if len(got) > 0 && got[0].Held.Distance != c.apart {
				t.Errorf("distance %d, want %d", got[0].Held.Distance, c.apart)
			}
		})
	}
}
