package place

import (
	"math/bits"

	"github.com/tenon-numa/tenon/core/topo"
)

// maskSpace is the set of NUMA nodes that matter to one request. A dense mask is a set of them as an int: bit i
// stands for the i-th of them in ascending order. Tables have one entry for each dense mask, and so do not grow with
// NUMA nodes that do not matter.
type maskSpace struct {
	at    []int // position of each dense bit
	plain bool  // at[i] == i: dense bits are positions
	// single: only masks of one NUMA node matter; all other entries of tables are undefined.
	single bool
}

// maxMaskSpace bounds the NUMA nodes that matter to one request, and so the size of tables. The kubelet does far more
// work for each mask, so no kubelet can serve a request beyond this bound.
const maxMaskSpace = 16

func newMaskSpace(universe topo.Mask) maskSpace {
	return maskSpace{at: universe.AppendPositions(make([]int, 0, topo.MaxNUMAs)), plain: universe&(universe+1) == 0}
}

// next returns the next mask after d that matters. The first mask that matters is 1.
func (l *maskSpace) next(d int) int {
	if l.single {
		return d << 1
	}
	return d + 1
}

// size returns the number of dense masks, the empty one included.
func (l *maskSpace) size() int { return 1 << len(l.at) }

// count returns how many masks matter. Unless single is set, the empty mask counts.
func (l *maskSpace) count() int {
	if l.single {
		return len(l.at)
	}
	return l.size()
}

// wide turns a dense mask into a mask of positions.
func (l *maskSpace) wide(d int) (out topo.Mask) {
	if l.plain {
		return topo.Mask(d)
	}
	for ; d != 0; d &= d - 1 {
		out |= 1 << uint(l.at[bits.TrailingZeros(uint(d))])
	}
	return out
}

// dense turns a mask of positions into a dense mask. It drops NUMA nodes outside the mask space.
func (l *maskSpace) dense(m topo.Mask) (out int) {
	for i, p := range l.at {
		out |= int(m>>uint(p)&1) << i
	}
	return out
}

// sum turns the amounts of single NUMA nodes, at out[1<<i], into the amounts of all masks. out[0] must be 0.
func (l *maskSpace) sum(out []int64) {
	if l.single {
		return
	}
	for i := range l.at {
		one, low := out[1<<i], out[:1<<i]
		high := out[1<<i:][:len(low)]
		for d, n := range low {
			high[d] = n + one
		}
	}
}

// hintSet has the hints of one resource that has a preference. A resource without a preference has no hint set. Slices
// are indexed by dense mask.
type hintSet struct {
	resource string
	want     int64
	// kinds is how often the hint set takes part in a merge, each time with any of its masks: the memory manager gives
	// the same hints once for every kind of memory. 0 means 1.
	kinds int
	// impossible: no mask serves the want. The hint set then prefers no mask, and the other hint sets choose.
	impossible bool
	// width is the preferred number of NUMA nodes: the fewest whose whole capacity serves the want.
	width int
	// able masks have enough free; fitting masks also respect the restrictions of earlier holdings. Invariant:
	// preferred implies fits, fits implies able; some mask fits unless the hint set is impossible.
	able, fits, preferred []bool
	// free is the free amount of each mask, total the free amount of the whole node.
	free  []int64
	total int64
	// apart is how much of total is on no NUMA node: devices only.
	apart int64
	// ties are masks that every fitting mask must touch, because init containers of the pod hold something there.
	ties []int
}

// tables is memory for one hint set. Slices are indexed by dense mask; entry 0 is the empty mask. Until prefer has run,
// preferred has the masks that are large enough.
type tables struct {
	whole, free           []int64 // amounts if nothing is held, and now
	able, fits, preferred []bool
}

// room is memory for the tables of machines of up to eight NUMA nodes; it can be on the stack.
type room struct {
	whole, free           [1 << defaultMaxNUMAs]int64
	able, fits, preferred [1 << defaultMaxNUMAs]bool
}

// tables returns tables for size masks, in the room if it is large enough.
func (r *room) tables(size int) tables {
	if size > len(r.able) {
		return newTables(size)
	}
	return tables{r.whole[:size], r.free[:size], r.able[:size], r.fits[:size], r.preferred[:size]}
}

func newTables(size int) tables {
	return tables{make([]int64, size), make([]int64, size), make([]bool, size), make([]bool, size), make([]bool, size)}
}

// open makes every mask within the universe able and preferred. Calls of demand then exclude masks.
func (t *tables) open(l *maskSpace, universe int) {
	t.able[0], t.preferred[0] = false, false
	for d := 1; d < len(t.able); d = l.next(d) {
		ok := d&^universe == 0
		t.able[d], t.preferred[d] = ok, ok
	}
}

// demand adds the condition that a mask has this amount. Masks stay preferred if they have the amount when nothing is
// held. Masks stay able if they stay preferred and have the amount free. Only prefer makes preferred final.
func (t *tables) demand(l *maskSpace, amount int64) {
	whole, free, able, preferred := t.whole, t.free[:len(t.whole)], t.able[:len(t.whole)], t.preferred[:len(t.whole)]
	for d := 1; d < len(whole); d = l.next(d) {
		preferred[d] = preferred[d] && whole[d] >= amount
		able[d] = able[d] && preferred[d] && free[d] >= amount
	}
}

// close ends the demands and returns f with the tables. The width of f becomes that of the narrowest preferred mask,
// unless it is less already. Every able mask then fits.
func (t *tables) close(l *maskSpace, f hintSet) hintSet {
	for d := 1; d < len(t.preferred); d = l.next(d) {
		if t.preferred[d] {
			f.width = min(f.width, bits.OnesCount(uint(d)))
		}
	}
	copy(t.fits, t.able)
	f.free, f.able, f.fits, f.preferred = t.free, t.able, t.fits, t.preferred
	return f
}

// prefer makes preferred exactly the fitting masks of the hint set's width. The hint set is impossible if no mask
// fits.
func (h *hintSet) prefer(l *maskSpace) {
	h.impossible = true
	for d := 1; d < len(h.fits); d = l.next(d) {
		h.impossible = h.impossible && !h.fits[d]
		h.preferred[d] = h.fits[d] && bits.OnesCount(uint(d)) == h.width
	}
}

// tie removes the fitting masks that do not touch every tie.
func (h *hintSet) tie(l *maskSpace) {
	for d := 1; len(h.ties) > 0 && d < len(h.fits); d = l.next(d) {
		h.fits[d] = h.fits[d] && h.touches(d)
	}
}

// touches reports whether a dense mask touches every tie.
func (h *hintSet) touches(d int) bool {
	for _, t := range h.ties {
		if d&t == 0 {
			return false
		}
	}
	return true
}
