package place

import (
	"math/bits"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file is the topology manager: it chooses the NUMA nodes that a container (or pod) is aligned to. Its input is
// a hint set for each resource: the NUMA node masks that can serve the resource (topologymanager/policy.go). The
// rules are:
//
//   - A combination has one mask of every hint set, and the kubelet tries all combinations. The affinity of a
//     combination is the intersection of its masks. A combination is preferred if all its masks are equal and each is
//     preferred by its hint set.
//   - A preferred affinity beats any other. Among preferred ones the narrowest wins, then (option
//     prefer-closest-numa-nodes) the one with the shortest mean distance, then the lowest NUMA nodes.
//   - Without a preferred affinity: every hint set has a narrowest mask; let w be the largest width among
//     these narrowest masks. An affinity of width w wins; else the widest affinity that is narrower than w;
//     else the narrowest affinity that is wider than w; ties as above.
//   - single-numa-node looks only at preferred masks of one NUMA node.
//
// The outcome does not depend on the order of combinations, so this file does not enumerate them. The preferred masks
// are the intersection of the hint sets' preferred masks. All affinities that some combination reaches are the
// AND-convolution of the hint sets over the mask space. For n NUMA nodes the convolution takes n*2^n steps per hint
// set, where each hint set multiplies the kubelet's combinations by up to 2^n.

// hint is the topology manager's decision for one container or pod. mask is the affinity; if set is false, there is
// none. preferred means that every hint set prefers the affinity.
type hint struct {
	mask      topo.Mask
	set       bool
	preferred bool
}

// policyRow describes one topology policy as data.
type policyRow struct {
	hints     bool // asks for hints at all
	single    bool // only masks of one NUMA node
	preferred bool // refuses what is not preferred
}

var policyTable = [...]policyRow{
	None:       {},
	BestEffort: {hints: true},
	Restricted: {hints: true, preferred: true},
	SingleNUMA: {hints: true, single: true, preferred: true},
}

// merging is the state of a merge: what follows from the hint sets so far.
type merging struct {
	row policyRow
	// possible: every hint set so far has a mask. choosing: at least one has a mask; a hint set that has one is called
	// choosy.
	possible, choosing bool
	preferred          []bool // masks that all choosy hint sets prefer
	// reached[d] is 1 if d is an intersection of one mask of every choosy hint set, and 0 otherwise; scratch is
	// memory for computing it. aim is the best width for an affinity that is not preferred. Only policies that admit
	// such affinities need these fields.
	reached, scratch []uint64
	aim              int
	work             *work
}

// crossing is memory for a merge on machines of up to eight NUMA nodes.
type crossing struct {
	preferred        [1 << defaultMaxNUMAs]bool
	reached, scratch [1 << defaultMaxNUMAs]uint64
}

// merging returns a merge of no hint sets. size is the number of masks in the mask space.
func (c *crossing) merging(row policyRow, size int) merging {
	m := merging{row: row, possible: true}
	if size > len(c.preferred) {
		m.preferred = make([]bool, size)
		if !row.preferred {
			m.reached, m.scratch = make([]uint64, size), make([]uint64, size)
		}
		return m
	}
	m.preferred, m.reached, m.scratch = c.preferred[:size], c.reached[:size], c.scratch[:size]
	return m
}

// meet takes one more hint set into account.
func (m *merging) meet(l *maskSpace, f *hintSet) {
	if f.impossible {
		m.possible = false
		return
	}
	if !m.choosing {
		copy(m.preferred, f.preferred)
	} else {
		for d := 1; d < len(m.preferred); d = l.next(d) {
			m.preferred[d] = m.preferred[d] && f.preferred[d]
		}
	}
	if !m.row.preferred {
		m.reach(f)
	}
	m.choosing = true
}

// reach intersects the reached masks with the masks of one more hint set, once for each of its kinds.
func (m *merging) reach(f *hintSet) {
	narrowest := len(m.preferred)
	for k := range max(1, f.kinds) {
		counts := m.scratch
		if !m.choosing && k == 0 {
			counts = m.reached
		}
		for d, ok := range f.fits {
			counts[d] = 0
			if ok {
				counts[d] = 1
				narrowest = min(narrowest, bits.OnesCount(uint(d)))
			}
		}
		if m.choosing || k > 0 {
			andConvolve(m.reached, counts)
		}
	}
	m.aim = max(m.aim, narrowest)
}

// decide returns the affinity; admit is false if the policy refuses the request.
func (m *merging) decide(u *Usage, l *maskSpace) (h hint, admit bool) {
	if m.row.single {
		h = m.decideSingle(u.Machine, l)
	} else {
		h = m.decideAny(u, l)
	}
	return h, h.preferred || !m.row.preferred
}

// decideSingle takes the lowest NUMA node that every hint set prefers. There is no affinity if that NUMA node is the
// whole machine, or if no resource has a preference (policy_single_numa_node.go, Merge).
func (m *merging) decideSingle(machine *topo.Machine, l *maskSpace) hint {
	if !m.possible {
		return hint{}
	} else if !m.choosing {
		return hint{preferred: true}
	}
	for i := range l.at {
		if m.preferred[1<<i] {
			mask := l.wide(1 << i)
			return hint{mask: mask, set: mask != machine.All(), preferred: true}
		}
	}
	return hint{}
}

// decideAny takes the best preferred affinity. Without one, restricted refuses; best-effort takes the best reached
// affinity, else all NUMA nodes.
func (m *merging) decideAny(u *Usage, l *maskSpace) hint {
	if !m.choosing {
		return hint{mask: u.Machine.All(), set: true, preferred: m.possible}
	}
	if m.possible {
		best := 0
		for d, ok := range m.preferred {
			if ok && (best == 0 || m.closer(u, l, d, best)) {
				best = d
			}
		}
		if best != 0 {
			return hint{mask: l.wide(best), set: true, preferred: true}
		}
	}
	if m.row.preferred {
		return hint{} // the policy refuses any other affinity
	}
	if d := m.bestReached(u, l); d != 0 {
		return hint{mask: l.wide(d), set: true}
	}
	return hint{mask: u.Machine.All(), set: true}
}

// closer reports whether the topology manager chooses mask a rather than mask b: the narrower one; of equally wide
// ones, with prefer-closest-numa-nodes, the one with the shorter mean distance; then the one with the lower NUMA
// nodes (numa_info.go, Closest and Narrowest).
func (m *merging) closer(u *Usage, l *maskSpace, a, b int) bool {
	x, y := bits.OnesCount(uint(a)), bits.OnesCount(uint(b))
	if x != y {
		return x < y
	}
	if u.Rules.Topology.PreferClosest && m.work.spend(2*x*x) {
		if x, y := meanDistance(u.Machine, l.wide(a)), meanDistance(u.Machine, l.wide(b)); x != y {
			return x < y
		}
	}
	return a < b
}

// meanDistance returns the mean over all ordered pairs of NUMA nodes of a mask. Pairs of a NUMA node with itself count.
func meanDistance(m *topo.Machine, mask topo.Mask) float64 {
	var sum, n float64
	for a := mask; a != 0; a &= a - 1 {
		distances := m.NUMAs()[a.First()].Distances
		for b := mask; b != 0; b &= b - 1 {
			if j := b.First(); j < len(distances) {
				sum += float64(distances[j])
			}
			n++
		}
	}
	return sum / n
}

// andConvolve sets x[d], for every mask d, to 1 if there are masks a and b with x[a] = 1, y[b] = 1 and a&b == d, and
// to 0 otherwise. It returns x, and overwrites y. Sums over all supersets of each mask turn the convolution into a
// product of entries; taking the sums back then gives the number of pairs a, b. With x, y in {0, 1} and at most 2^16
// masks no number exceeds 2^32.
func andConvolve(x, y []uint64) []uint64 {
	superset(x, 1)
	superset(y, 1)
	for d, n := range y {
		x[d] *= n
	}
	superset(x, -1)
	for d := range x {
		x[d] = min(x[d], 1)
	}
	return x
}

// superset replaces x[d], for every mask d, by the sum of x over all masks that contain d (sign 1), or undoes that
// (sign -1). The length of x is a power of two.
func superset(x []uint64, sign int) {
	for bit := 1; bit < len(x); bit <<= 1 {
		for base := 0; base < len(x); base += 2 * bit {
			without, with := x[base:base+bit], x[base+bit:][:bit]
			if sign > 0 {
				for i, n := range with {
					without[i] += n
				}
				continue
			}
			for i, n := range with {
				without[i] -= n
			}
		}
	}
}

// bestReached returns the best reached affinity if no affinity is preferred, or 0 (policy.go, compare).
func (m *merging) bestReached(u *Usage, l *maskSpace) (best int) {
	for d := 1; d < len(m.reached); d++ {
		if m.reached[d] == 0 {
			continue
		}
		if best == 0 {
			best = d
			continue
		}
		class, n := m.rank(d)
		bestClass, bestN := m.rank(best)
		if class < bestClass || (class == bestClass && n < bestN) ||
			(class == bestClass && n == bestN && m.closer(u, l, d, best)) {
			best = d
		}
	}
	return best
}

// rank orders affinities that are not preferred by class, then by order; lower is better. First come masks of the
// width aim, then narrower ones, widest first, then wider ones, narrowest first.
func (m *merging) rank(d int) (class, order int) {
	switch n := bits.OnesCount(uint(d)); {
	case n == m.aim:
		return 0, 0
	case n < m.aim:
		return 1, -n
	default:
		return 2, n
	}
}
