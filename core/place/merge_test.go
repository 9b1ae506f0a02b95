package place

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/topo"
)

// twin implements the topology manager's contract literally, to verify merge. It forms every combination of one hint of
// each hint set and compares the results one after the other, where merge convolves. A comparison depends on order, so
// the twin also shuffles the combinations.

// twinHint is one hint, or the affinity of a combination. In a hint, mask 0 means any NUMA nodes.
type twinHint struct {
	mask      topo.Mask
	preferred bool
}

// twin is one merge by enumeration.
type twin struct {
	policy  Policy
	closest bool
	machine *topo.Machine
	hints   [][]twinHint
}

// hintsOf turns hint sets into lists of hints. A hint set that no mask serves becomes one hint for any NUMA nodes that
// is not preferred.
func hintsOf(l maskSpace, sets []hintSet) [][]twinHint {
	var out [][]twinHint
	for _, f := range sets {
		if f.impossible {
			out = append(out, []twinHint{{0, false}})
			continue
		}
		var hs []twinHint
		for d, ok := range f.fits {
			if ok {
				hs = append(hs, twinHint{l.wide(d), f.preferred[d]})
			}
		}
		out = append(out, hs)
	}
	return out
}

// keepSingle drops the hints that single-numa-node ignores: those that are not preferred or have several NUMA nodes.
func keepSingle(in [][]twinHint) [][]twinHint {
	var out [][]twinHint
	for _, hs := range in {
		var kept []twinHint
		for _, h := range hs {
			if h.preferred && h.mask.Len() <= 1 {
				kept = append(kept, h)
			}
		}
		out = append(out, kept)
	}
	return out
}

// merge returns the affinity, 0 for none, whether it is preferred, and whether the policy admits.
func (t twin) merge(shuffle func([]twinHint)) (mask topo.Mask, preferred, admit bool) {
	if t.policy == SingleNUMA {
		t.hints = keepSingle(t.hints)
	}
	all := t.combinations()
	shuffle(all)
	best := twinHint{}
	for _, c := range all {
		if c.mask != 0 && (best.mask == 0 || t.beats(c, best)) {
			best = c
		}
	}
	if best.mask == 0 {
		best = twinHint{t.machine.All(), false}
	}
	if t.policy == SingleNUMA && best.mask == t.machine.All() {
		best.mask = 0
	}
	return best.mask, best.preferred, best.preferred || t.policy == BestEffort
}

// combinations returns the affinity of every combination. Without hint sets there is one combination: all NUMA nodes.
func (t twin) combinations() []twinHint {
	type partial struct {
		and       topo.Mask
		first     topo.Mask // of the masks that are set
		preferred bool
	}
	out := []partial{{and: t.machine.All(), preferred: true}}
	for _, hs := range t.hints {
		var next []partial
		for _, p := range out {
			for _, h := range hs {
				q := p
				q.preferred = q.preferred && h.preferred
				if h.mask != 0 {
					q.and &= h.mask
					if q.first == 0 {
						q.first = h.mask
					}
					q.preferred = q.preferred && h.mask == q.first
				}
				next = append(next, q)
			}
		}
		out = next
	}
	var hints []twinHint
	for _, p := range out {
		hints = append(hints, twinHint{p.and, p.preferred})
	}
	return hints
}

// aim returns the width that an affinity which is not preferred should have.
func (t twin) aim() (width int) {
	for _, hs := range t.hints {
		narrowest := 0
		for _, h := range hs {
			if h.mask != 0 && (narrowest == 0 || h.mask.Len() < narrowest) {
				narrowest = h.mask.Len()
			}
		}
		width = max(width, narrowest)
	}
	return width
}

// beats reports whether a candidate replaces the current best.
func (t twin) beats(candidate, current twinHint) bool {
	if candidate.preferred != current.preferred {
		return candidate.preferred
	}
	if candidate.preferred {
		return t.fitter(candidate.mask, current.mask)
	}
	aim, n, m := t.aim(), candidate.mask.Len(), current.mask.Len()
	switch {
	case m > aim:
		return t.fitter(candidate.mask, current.mask)
	case m == aim:
		return n == aim && t.fitter(candidate.mask, current.mask)
	case n > aim:
		return false
	case n != m:
		return n > m
	}
	return t.fitter(candidate.mask, current.mask)
}

// fitter orders masks: narrower first, then closer ones if the option is set, then lower ones.
func (t twin) fitter(a, b topo.Mask) bool {
	if a.Len() != b.Len() {
		return a.Len() < b.Len()
	}
	if x, y := t.distance(a), t.distance(b); t.closest && t.policy != SingleNUMA && x != y {
		return x < y
	}
	return a < b
}

// distance is the sum over all ordered pairs. For masks of one width it gives the same order as the mean.
func (t twin) distance(m topo.Mask) (sum int) {
	for i, n := range t.machine.NUMAs() {
		for j, d := range n.Distances {
			if m.Has(i) && m.Has(j) {
				sum += d
			}
		}
	}
	return sum
}

// drawMachine makes a machine of n NUMA nodes, some far from each other.
func drawMachine(t *rapid.T, n int) *topo.Machine {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "numa %d cpus %d memory 1Gi\n", 3*i, i)
	}
	for i := range n {
		b.WriteString("distances")
		for j := range n {
			d := 10
			if i != j {
				d = rapid.SampledFrom([]int{12, 20, 32}).Draw(t, "distance")
			}
			fmt.Fprintf(&b, " %d", d)
		}
		b.WriteByte('\n')
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// drawHintSet draws a hint set that keeps the invariant: preferred implies fits, and some mask fits unless the hint set
// is impossible.
func drawHintSet(t *rapid.T, l maskSpace, resource string) hintSet {
	f := hintSet{resource: resource, fits: make([]bool, l.size()), preferred: make([]bool, l.size()), impossible: true}
	if rapid.IntRange(0, 9).Draw(t, "impossible") == 0 {
		return f
	}
	// Few masks make affinities rare, many make them common. The test needs both.
	count := rapid.SampledFrom([]int{1, 2, 2, 3, 6, 15}).Draw(t, "masks")
	for range count {
		d := rapid.IntRange(1, l.size()-1).Draw(t, "mask")
		f.fits[d], f.impossible = true, false
		f.preferred[d] = rapid.Bool().Draw(t, "preferred")
	}
	if rapid.Bool().Draw(t, "one width") { // the managers prefer the masks of one width
		width := rapid.IntRange(1, len(l.at)).Draw(t, "width")
		for d, ok := range f.fits {
			f.preferred[d] = ok && bits.OnesCount(uint(d)) == width
		}
	}
	return f
}

func TestMergeAgreesWithEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 3, 4, 4}).Draw(t, "numas")
		m := drawMachine(t, n)
		for range 30 {
			compareMerges(t, m)
		}
	})
}

// compareMerges merges some hint sets both ways. Policy none never merges.
func compareMerges(t *rapid.T, m *topo.Machine) {
	u := NewUsage(m, Rules{Topology: TopologyRules{
		Policy:        rapid.SampledFrom([]Policy{BestEffort, Restricted, SingleNUMA}).Draw(t, "policy"),
		PreferClosest: rapid.Bool().Draw(t, "closest"),
	}})
	// The mask space of a request may lack NUMA nodes that matter to none of its resources.
	l := newMaskSpace(m.All())
	if rapid.IntRange(0, 3).Draw(t, "part") == 0 {
		l = newMaskSpace(topo.Mask(rapid.Uint64Range(1, uint64(m.All())).Draw(t, "universe")))
	}
	var sets []hintSet
	for i := range rapid.IntRange(0, 4).Draw(t, "hintSets") {
		sets = append(sets, drawHintSet(t, l, fmt.Sprint("r", i)))
	}
	w := twin{policy: u.Rules.Topology.Policy, closest: u.Rules.Topology.PreferClosest, machine: m,
		hints: hintsOf(l, sets)}
	order := rapid.Uint64().Draw(t, "order")
	mask, preferred, admit := w.merge(func(hs []twinHint) { shuffle(hs, order) })

	h, ok := merge(u, l, sets)
	if ok != admit {
		t.Fatalf("admit = %v, enumeration says %v", ok, admit)
	}
	if !admit {
		return // the affinity of a refused pod does not matter
	}
	if h.preferred != preferred || h.set != (mask != 0) || (h.set && h.mask != mask) {
		t.Fatalf("merge gives %+v, enumeration mask %b preferred %v", h, mask, preferred)
	}
}

// shuffle uses a small generator of its own, so that a failing case can be replayed.
func shuffle(hs []twinHint, seed uint64) {
	for i := len(hs) - 1; i > 0; i-- {
		seed = seed*6364136223846793005 + 1442695040888963407
		j := int(seed >> 33 % uint64(i+1))
		hs[i], hs[j] = hs[j], hs[i]
	}
}

// Compares the AND-convolution with its definition.
func TestAndConvolveReachesEveryIntersection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(0, 5).Draw(t, "numas")
		x, y := make([]uint64, size), make([]uint64, size)
		want := make([]uint64, size)
		for d := range size {
			x[d] = uint64(rapid.IntRange(0, 1).Draw(t, "x"))
			y[d] = uint64(rapid.IntRange(0, 1).Draw(t, "y"))
		}
		for a := range size {
			for b := range size {
				if x[a] == 1 && y[b] == 1 {
					want[a&b] = 1
				}
			}
		}
		got := andConvolve(x, y)
		for d := range want {
			if got[d] != want[d] {
				t.Fatalf("mask %b: reached %d, by definition %d", d, got[d], want[d])
			}
		}
	})
}
