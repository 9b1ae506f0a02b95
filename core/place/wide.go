package place

import (
	"math/bits"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file finds the memory manager's own choice of NUMA nodes on machines with so many of them that tables of all
// masks are too large. Three kinds of masks can serve memory (calculateHints): a single NUMA node outside every group,
// a group as it is, and NUMA nodes without blocks. The file searches the best mask of each kind separately.

// wideMask is ownMask without tables. If it needs too many steps, it exhausts the admission's work.
func (a *admission) wideMask(c *Container, contains topo.Mask) (h hint, ok bool) {
	w := a.wideWidth(c)
	n := len(a.u.Machine.NUMAs())
	for k := range n + 1 {
		a.work.spend(8 * n)
		width := k // the preferred width first, then all others, narrowest first
		if k == 0 {
			width = w
		}
		if a.work.over() {
			break
		}
		if mask := a.lowestOf(c, width, contains); mask != 0 {
			return hint{mask: mask, set: true, preferred: width == w}, true
		}
	}
	return hint{}, false
}

// wideWidth returns the fewest NUMA nodes that would have the memory if nothing were held. It returns the number of all
// NUMA nodes if even all do not have it.
func (a *admission) wideWidth(c *Container) int {
	rows, ok := a.memoryRows(c.Memory)
	n := len(a.u.Machine.NUMAs())
	for w := 1; ok && w < n; w++ {
		if a.span(a.u.whole, rows, a.u.all, w) {
			return w
		}
	}
	return n
}

// memoryRows turns amounts into rows of a plan. ok is false if the machine lacks a kind, or there are too many kinds.
func (a *admission) memoryRows(want []Amount) (rows []row, ok bool) {
	for _, m := range want {
		k := a.u.kind(m.Kind)
		switch {
		case k >= 0:
			rows = append(rows, row{at: int32(a.u.memory(k)), amount: m.Bytes, on: a.u.all})
		case m.Bytes > 0:
			return nil, false
		}
	}
	if len(rows) > maxRows {
		a.work.exhaust()
		return nil, false
	}
	return rows, true
}

// span reports whether some w NUMA nodes of a mask together have what the rows want. If that needs too many steps, it
// exhausts the admission's work.
func (a *admission) span(amounts []int64, rows []row, in topo.Mask, w int) bool {
	if w == 0 {
		return !slices.ContainsFunc(rows, func(r row) bool { return r.amount > 0 })
	}
	steps := 0
	out := spans(amounts, rows, in, w, &steps)
	a.work.spend(steps)
	if out == unsure {
		a.work.exhaust()
	}
	return out == yes
}

// lowestOf returns the lowest mask that has the given width, contains the given NUMA nodes, and can serve the memory,
// or 0.
func (a *admission) lowestOf(c *Container, width int, contains topo.Mask) (best topo.Mask) {
	consider := func(mask topo.Mask) {
		if mask.Len() == width && mask&contains == contains && a.serves(mask, c.Memory) && (best == 0 || mask < best) {
			best = mask
		}
	}
	if width == 1 {
		for rest := a.u.all &^ a.u.grouped; rest != 0; rest &= rest - 1 {
			consider(rest & -rest)
		}
		return best
	}
	for rest := a.u.grouped; rest != 0; rest &= rest - 1 {
		if group := a.u.cells[rest.First()].group; group&^a.u.all == 0 && !a.u.violates(group) {
			consider(group)
		}
	}
	if unused := a.lowestUnused(c, width, contains); unused != 0 {
		consider(unused)
	}
	return best
}

// serves reports whether a mask has the memory, together with what init containers of the pod leave.
func (a *admission) serves(mask topo.Mask, want []Amount) bool {
	a.work.spend(len(want) * mask.Len())
	for _, w := range want {
		if a.u.freeOn(mask, w.Kind)+a.spare.memory[memoryKey{mask, w.Kind}] < w.Bytes ||
			a.u.kindOn(a.u.whole, mask, w.Kind) < w.Bytes {
			return false
		}
	}
	return true
}

// lowestUnused is lowestOf among NUMA nodes without blocks. From the highest NUMA node down, it drops each one
// without which the remaining ones still have the memory.
func (a *admission) lowestUnused(c *Container, width int, contains topo.Mask) topo.Mask {
	in := a.u.all &^ a.u.used
	rows, ok := a.memoryRows(c.Memory)
	if !ok || contains&^in != 0 || contains.Len() > width {
		return 0
	}
	out := contains
	take := func(numa int) {
		width--
		in &^= 1 << uint(numa)
		for k := range rows {
			rows[k].amount -= a.u.amounts[int(rows[k].at)+numa]
		}
	}
	for rest := contains; rest != 0; rest &= rest - 1 {
		take(rest.First())
	}
	if !a.span(a.u.amounts, rows, in, width) {
		return 0
	}
	for width > 0 && !a.work.over() {
		last := bits.Len64(uint64(in)) - 1
		if without := in &^ (1 << uint(last)); a.span(a.u.amounts, rows, without, width) {
			in = without
			continue
		}
		out |= 1 << uint(last)
		take(last)
	}
	return out
}

// wideReasons is memoryReasons without tables. Only policy none gets here, so no affinity can be the reason.
func (a *admission) wideReasons(c *Container) []Reason {
	var group, short []Reason
	for _, w := range c.Memory {
		r := Reason{Code: Group, Container: c.Name, Resource: w.Kind, Want: w.Bytes, Have: a.u.freeOn(a.u.all, w.Kind)}
		group = append(group, r)
		if r.Code = Short; r.Have < r.Want {
			short = append(short, r)
		}
	}
	if len(short) > 0 {
		return short
	}
	return group
}
