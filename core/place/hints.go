package place

import (
	"math/bits"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file is the topology manager: which numas a container (or pod) shall be aligned to, given for
// each resource the family of numa masks that can serve it (topologymanager/policy.go). The rules are:
//
//   - The kubelet picks one mask of every family in all combinations; the affinity of a combination is
//     the intersection of its masks. A combination is preferred if all its masks are equal and each is
//     preferred by its family.
//   - A preferred affinity beats any other. Among preferred ones the narrowest wins, then (option
//     prefer-closest-numa-nodes) the one with the shortest mean distance, then the lowest numas.
//   - Without a preferred one: let w be the width of the narrowest mask of the family whose narrowest
//     mask is widest. An affinity of width w wins; else the widest of those narrower than w; else the
//     narrowest of those wider than w; ties as above.
//   - single-numa-node looks only at preferred masks of one numa.
//
// The outcome does not depend on the order of combinations, so they need not be enumerated: the
// preferred masks are the intersection of the families' preferred masks, and all affinities that some
// combination reaches are found by the AND-convolution of the families over the lattice of masks, in
// n*2^n steps per family where the kubelet takes 2^n times as many for each.

// lattice is the numas that matter to one request, as dense bits 0..n-1 in ascending order.
type lattice struct {
	at []int // position of each dense bit
}

// maxLattice bounds the work for one request. The kubelet enumerates the same masks with far more work
// for each, so no kubelet lives on a machine where this bound bites.
const maxLattice = 16

func newLattice(universe topo.Mask) lattice { return lattice{universe.Positions()} }

func (l lattice) size() int { return 1 << len(l.at) }

// wide turns dense bits into a mask of positions.
func (l lattice) wide(d int) (out topo.Mask) {
	for ; d != 0; d &= d - 1 {
		out |= 1 << uint(l.at[bits.TrailingZeros(uint(d))])
	}
	return out
}

// dense turns a mask of positions into dense bits; numas outside the lattice are dropped.
func (l lattice) dense(m topo.Mask) (out int) {
	for i, p := range l.at {
		out |= int(m>>uint(p)&1) << i
	}
	return out
}

// sums returns for every mask the sum of a value over its numas.
func (l lattice) sums(value func(position int) int64) []int64 {
	out := make([]int64, l.size())
	for d := 1; d < len(out); d++ {
		low := bits.TrailingZeros(uint(d))
		if rest := d & (d - 1); rest != 0 {
			out[d] = out[rest] + out[1<<low]
		} else {
			out[d] = value(l.at[low])
		}
	}
	return out
}

// family is the hints of one resource that has a preference. A resource that does not mind where it
// comes from has no family.
type family struct {
	resource string
	want     int64
	// impossible: no numas will do. Nothing is preferred then, and the other families choose.
	impossible bool
	// width is the preferred number of numas: the fewest whose whole capacity would serve the want.
	width int
	// fits and preferred are indexed by dense mask. Invariant: preferred implies fits; some mask fits
	// unless the family is impossible.
	fits, preferred []bool
	// free is the amount that each dense mask has free, for reasons.
	free []int64
	// total is what the whole node has free.
	total int64
	// tied: what earlier containers of the pod hold rules out masks that would do otherwise.
	// grouped: so do the memory manager's groups.
	tied, grouped bool
}

// hint is the topology manager's decision for one container. Not set means no affinity.
type hint struct {
	mask      topo.Mask
	set       bool
	preferred bool
}

// policyRow is one topology policy: a row of data, not a class.
type policyRow struct {
	hints     bool // asks for hints at all
	single    bool // only masks of one numa
	preferred bool // refuses what is not preferred
}

var policyTable = [...]policyRow{
	None:       {},
	BestEffort: {hints: true},
	Restricted: {hints: true, preferred: true},
	SingleNUMA: {hints: true, single: true, preferred: true},
}

// merge decides on the affinity; admit is false where the policy refuses.
func merge(u *Usage, l lattice, fams []family) (h hint, admit bool) {
	row := policyTable[u.Rules.Topology.Policy]
	if row.single {
		h = mergeSingle(u.Machine, l, fams)
	} else {
		h = mergeAny(u, l, fams, row.preferred)
	}
	return h, h.preferred || !row.preferred
}

// mergeSingle takes the lowest numa that every family prefers. On a machine where that numa is all
// there is, and where nobody minds, there is no affinity (policy_single_numa_node.go, Merge).
func mergeSingle(m *topo.Machine, l lattice, fams []family) hint {
	if possible, choosing := outlook(fams); !possible {
		return hint{}
	} else if !choosing {
		return hint{preferred: true}
	}
	for i := range l.at {
		if allPrefer(fams, 1<<i) {
			mask := l.wide(1 << i)
			return hint{mask: mask, set: mask != m.All(), preferred: true}
		}
	}
	return hint{}
}

// outlook says whether every family has a mask, and whether any has.
func outlook(fams []family) (possible, choosing bool) {
	possible = true
	for i := range fams {
		possible = possible && !fams[i].impossible
		choosing = choosing || !fams[i].impossible
	}
	return possible, choosing
}

func allPrefer(fams []family, d int) bool {
	for i := range fams {
		if !fams[i].impossible && !fams[i].preferred[d] {
			return false
		}
	}
	return true
}

func mergeAny(u *Usage, l lattice, fams []family, onlyPreferred bool) hint {
	possible, choosing := outlook(fams)
	if !choosing {
		return hint{mask: u.Machine.All(), set: true, preferred: possible}
	}
	better := closer(u, l)
	if possible {
		best := 0
		for d := 1; d < l.size(); d++ {
			if allPrefer(fams, d) && (best == 0 || better(d, best)) {
				best = d
			}
		}
		if best != 0 {
			return hint{mask: l.wide(best), set: true, preferred: true}
		}
	}
	if onlyPreferred {
		return hint{} // refused whatever the affinity would be
	}
	if d := bestReached(reached(l, fams), widest(fams), better); d != 0 {
		return hint{mask: l.wide(d), set: true}
	}
	return hint{mask: u.Machine.All(), set: true}
}

// closer orders masks: narrower first, then by mean distance where the option asks for it, then by
// lower numas (numa_info.go, Closest and Narrowest).
func closer(u *Usage, l lattice) func(a, b int) bool {
	return func(a, b int) bool {
		if x, y := bits.OnesCount(uint(a)), bits.OnesCount(uint(b)); x != y {
			return x < y
		}
		if u.Rules.Topology.PreferClosest {
			if x, y := meanDistance(u.Machine, l.wide(a)), meanDistance(u.Machine, l.wide(b)); x != y {
				return x < y
			}
		}
		return a < b
	}
}

// meanDistance is the mean over all ordered pairs of numas of a mask, each with itself included.
func meanDistance(m *topo.Machine, mask topo.Mask) float64 {
	var sum, n float64
	at := mask.Positions()
	for _, i := range at {
		for _, j := range at {
			if d := m.NUMAs()[i].Distances; j < len(d) {
				sum += float64(d[j])
			}
			n++
		}
	}
	return sum / n
}

// widest returns the width that a non-preferred affinity should have: of every family the narrowest
// mask, of those the widest (policy.go, maxOfMinAffinityCounts).
func widest(fams []family) (w int) {
	for _, f := range fams {
		if f.impossible {
			continue
		}
		narrowest := maxLattice + 1
		for d, ok := range f.fits {
			if ok {
				narrowest = min(narrowest, bits.OnesCount(uint(d)))
			}
		}
		w = max(w, narrowest)
	}
	return w
}

// reached returns which masks are the intersection of one mask of every choosy family.
func reached(l lattice, fams []family) []bool {
	var acc []uint64
	for _, f := range fams {
		if f.impossible {
			continue
		}
		counts := make([]uint64, l.size())
		for d, ok := range f.fits {
			if ok {
				counts[d] = 1
			}
		}
		if acc == nil {
			acc = counts
			continue
		}
		acc = andConvolve(acc, counts)
	}
	out := make([]bool, l.size())
	for d, n := range acc {
		out[d] = n != 0
	}
	return out
}

// andConvolve returns for every mask d whether some a with x[a] and some b with y[b] have a&b == d, as 0
// or 1. Summing over supersets turns it into a product; subtracting them again turns it back. With
// x, y in {0, 1} and at most 2^16 masks no count exceeds 2^32.
func andConvolve(x, y []uint64) []uint64 {
	superset(x, 1)
	superset(y, 1)
	for d := range x {
		x[d] *= y[d]
	}
	superset(x, -1)
	for d := range x {
		x[d] = min(x[d], 1)
	}
	return x
}

// superset adds (sign 1) or subtracts (sign -1) along every bit, in place.
func superset(x []uint64, sign int) {
	for bit := 1; bit < len(x); bit <<= 1 {
		for d := range x {
			if d&bit == 0 {
				if sign > 0 {
					x[d] += x[d|bit]
				} else {
					x[d] -= x[d|bit]
				}
			}
		}
	}
}

// bestReached picks among affinities none of which is preferred (policy.go, compare).
func bestReached(masks []bool, w int, better func(a, b int) bool) (best int) {
	rank := func(d int) (int, int) {
		switch n := bits.OnesCount(uint(d)); {
		case n == w:
			return 0, 0
		case n < w:
			return 1, -n
		default:
			return 2, n
		}
	}
	for d := 1; d < len(masks); d++ {
		if !masks[d] {
			continue
		}
		if best == 0 {
			best = d
			continue
		}
		c1, n1 := rank(d)
		c2, n2 := rank(best)
		if c1 < c2 || (c1 == c2 && n1 < n2) || (c1 == c2 && n1 == n2 && better(d, best)) {
			best = d
		}
	}
	return best
}
