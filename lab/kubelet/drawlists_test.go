package kubelet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// unusualLists makes the plugins of one machine in five announce lists of NUMA nodes that no description of a machine
// has: empty ones, negative ids, ids of NUMA nodes that the machine lacks. The random numbers are a stream of their
// own, so that everything else about a seed stays as it is. The judges of other releases cannot announce empty lists.
func (d *drawing) unusualLists(seed uint64, by judge) error {
	r := rand.New(rand.NewPCG(seed, 2))
	if r.IntN(5) > 0 {
		return nil
	}
	spec := d.s.Machine.Spec()
	often := 1 + r.IntN(4)
	for i := range spec.Devices {
		dev := &spec.Devices[i]
		if r.IntN(often) > 0 {
			continue
		}
		dev.List = pick(r, topo.EmptyList, topo.NegativeID, topo.NegativeID, topo.UnknownID)
		if _, linked := by.(here); dev.List == topo.EmptyList && !linked {
			dev.List = topo.NegativeID
		}
		// A negative id beside NUMA nodes of the machine is not drawn: the kubelet then reports held devices without any.
		if dev.List != topo.UnknownID || r.IntN(4) > 0 {
			dev.NUMAs = nil
		}
	}
	m, err := topo.New(spec)
	if err != nil {
		return fmt.Errorf("seed %d, lists of NUMA nodes: %w", seed, err)
	}
	d.s.Machine = m
	return nil
}

// emptyLists reports whether the plugin of some device announces an empty list of NUMA nodes.
func emptyLists(m *topo.Machine) bool {
	return slices.ContainsFunc(m.Resources(), func(r topo.Resource) bool {
		return slices.ContainsFunc(r.Devices, func(d topo.Device) bool { return d.List == topo.EmptyList })
	})
}
