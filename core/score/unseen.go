package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// A mix learned from few pods predicts little about future pods. So it always has one pod more that has never been
// requested: the unseen pod. It wants a whole NUMA node or a whole node, with equal probability, so a placement on
// untouched NUMA nodes takes its room away. It weighs as much as each pod that was seen (the rule of succession):
// fullWeight/(seen+1), rounded down, which is 0 from fullWeight pods on.

// Unseen returns the weight of the unseen pod, out of 256: all of it for a mix without pods, 0 if enough pods were
// seen.
func (m *Mix) Unseen() int64 {
	if m == nil {
		return fullWeight
	}
	return m.unseen
}

// unseenDamage returns what a placement takes away from the unseen pod, in the unit of damage.
func (m *Mix) unseenDamage(u *place.Usage, used topo.Mask) (sum int64) {
	weight := m.Unseen()
	if weight == 0 {
		return 0
	}
	// whole: the placement is the first to use any of the node, so it takes the room of a pod that wants the whole
	// node, too. Under single-numa-node no pod gets several NUMA nodes.
	whole := u.Rules.Topology.Policy != place.SingleNUMA || len(u.Machine.NUMAs()) == 1
	for on := used; on != 0; {
		var i int
		if i, on = next(on); untouched(u, i) {
			sum += weight * numaWorth(u, i)
		} else {
			whole = false
		}
	}
	for on := u.Machine.All() &^ used; on != 0 && whole; {
		var i int
		i, on = next(on)
		whole = untouched(u, i)
	}
	for on := u.Machine.All(); on != 0 && whole; {
		var i int
		i, on = next(on)
		sum += weight * numaWorth(u, i)
	}
	return sum
}

// untouched reports whether nothing of a NUMA node is held.
func untouched(u *place.Usage, numa int) bool {
	cpus := u.Machine.NUMAs()[numa].CPUs
	if cpus.AndLen(u.FreeCPUs())+cpus.AndLen(u.Rules.CPU.Reserved) < cpus.Len() {
		return false
	}
	for _, kind := range u.Kinds() {
		if u.FreeMemory(numa, kind) < u.Allocatable(numa, kind) {
			return false
		}
	}
	for at := range u.Machine.Resources() {
		if free, whole, _ := u.Amounts(u.Machine.Resources()[at].Name); free[numa] < whole[numa] {
			return false
		}
	}
	return true
}

// numaWorth is the worth of a pod that wants a whole NUMA node.
func numaWorth(u *place.Usage, numa int) int64 {
	_, cpus, _ := u.Amounts(cpu)
	sum := worthCPU * cpus[numa]
	for _, kind := range u.Kinds() {
		sum += u.Allocatable(numa, kind) / gibibyte
	}
	for at := range u.Machine.Resources() {
		_, devices, _ := u.Amounts(u.Machine.Resources()[at].Name)
		sum += worthDevice * devices[numa]
	}
	return sum
}
