package defrag

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file makes sets of movers: those without which a pod fits on a node, and all in the order of their costs.

// enough returns sets of movers without whose movers of a node takes returns true for the node, the cheapest first.
// None of them has a pod that need not go, apart from the gangs that move with the others.
func (s *search) enough(n *whatif.Node, movers []int, takes func(n *whatif.Node) bool) (out [][]int) {
	left := maxLooks
	works := func(set []int) bool {
		left--
		return takes(s.after(n, set))
	}
	if len(movers) == 0 || !works(movers) {
		return nil
	}
	keep := func(set []int) {
		set = s.closed(set)
		if s.allows(set) && !slices.ContainsFunc(out, func(x []int) bool { return slices.Equal(x, set) }) {
			out = append(out, set)
		}
	}
	for _, pool := range s.pools(n, movers) {
		if left <= 0 {
			break
		}
		pool = among(movers, s.closed(pool))
		if len(pool) < len(movers) && !works(pool) {
			continue
		}
		// Once with the dear ones spared first, and once with the small ones, so that few large ones remain.
		for _, order := range [][]int{s.by(pool, s.dear), s.by(pool, s.small)} {
			gone := slices.Clone(pool)
			for _, i := range order {
				rest := minus(gone, s.with(i))
				if len(rest) == len(gone) {
					continue // it has stayed with its gang
				}
				if left > -maxLooks && len(rest) > 0 && works(rest) {
					gone = rest
				}
			}
			keep(gone)
		}
	}
	if x := s.cheapest(movers, works, out); x != nil {
		keep(x)
	}
	slices.SortStableFunc(out, func(a, b []int) int { return s.Cost(a).Compare(s.Cost(b)) })
	return out[:min(len(out), maxAlternatives)]
}

// pools returns sets of a node's movers that are likely to be enough: all, and those on few NUMA nodes.
func (s *search) pools(n *whatif.Node, movers []int) [][]int {
	out := [][]int{movers}
	if n.State == nil || n.State.Machine == nil {
		return out
	}
	var on []topo.Mask
	for _, i := range movers {
		e, _ := n.State.Entry(s.Movers[i].Pod.UID)
		var mask topo.Mask
		for _, h := range e.Holdings {
			mask |= h.NUMAs(n.State.Machine)
		}
		on = append(on, mask)
	}
	for _, g := range evict.Groups(n.State.Machine, on, 2) {
		if len(g) == 0 || len(g) == len(movers) {
			continue
		}
		var pool []int
		for _, k := range g {
			pool = append(pool, movers[k])
		}
		out = append(out, pool)
	}
	return out
}

func (s *search) by(pool []int, order func(a, b *Mover) int) []int {
	out := slices.Clone(pool)
	slices.SortStableFunc(out, func(i, j int) int { return order(&s.Movers[i], &s.Movers[j]) })
	return out
}

// dear orders pods that cost most first, and small those that request least.
func (s *search) dear(a, b *Mover) int {
	return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Started, b.Started))
}

func (s *search) small(a, b *Mover) int {
	return cmp.Or(cmp.Compare(a.Needs["cpu"], b.Needs["cpu"]), cmp.Compare(a.Needs[topo.Memory], b.Needs[topo.Memory]))
}

// cheapest returns the cheapest set of movers of a node that works, if it costs less than all known ones; nil if there
// is none, or if looking for it takes too long.
func (s *search) cheapest(movers []int, works func([]int) bool, known [][]int) []int {
	found, _, _ := s.ascending(nil, movers, maxLooks, func(c Cost) bool {
		return !slices.ContainsFunc(known, func(x []int) bool { return s.Cost(x).Compare(c) <= 0 })
	}, func(set []int) (bool, error) { return works(set), nil })
	return found
}

// ascending makes the sets of a pool, each with all movers of base and with all that move if its own do, in the
// order of their costs, as long as worth
// returns true, and returns the first for which works returns true; nil if there is none. cut is true if it ended after
// limit sets.
func (s *search) ascending(
	base, pool []int,
	limit int,
	worth func(Cost) bool,
	works func([]int) (bool, error),
) (found []int, cut bool, err error) {
	order := s.units(pool)
	slices.SortStableFunc(order, func(a, b []int) int { return s.Cost(a).Compare(s.Cost(b)) })
	q := &queue{}
	push := func(from []int, k int) {
		set := union(from, order[k])
		if c := s.Cost(set); s.allows(set) && worth(c) {
			heap.Push(q, candidate{set, k, c})
		}
	}
	for k := range order {
		push(base, k)
	}
	for ; q.Len() > 0; limit-- {
		if limit == 0 {
			return nil, true, nil
		}
		c := heap.Pop(q).(candidate)
		if ok, err := works(c.set); ok || err != nil {
			return c.set, false, err
		}
		for k := c.last + 1; k < len(order); k++ { // each set is made once
			push(c.set, k)
		}
	}
	return nil, false, nil
}

// units returns what moves by itself of a pool: single movers, and gangs that move as a whole.
func (s *search) units(pool []int) (out [][]int) {
	seen := map[int]bool{}
	for _, i := range pool {
		all := s.with(i)
		if !seen[all[0]] {
			seen[all[0]] = true
			out = append(out, all)
		}
	}
	return out
}

// minus returns the movers of a set that are not in another one.
func minus(set, other []int) []int {
	return slices.DeleteFunc(slices.Clone(set), func(i int) bool { return slices.Contains(other, i) })
}

// among returns the movers of a set that are in another one as well.
func among(set, other []int) []int {
	return slices.DeleteFunc(slices.Clone(set), func(i int) bool { return !slices.Contains(other, i) })
}

// candidate is a set to be tried; last is the position in the order of the pool of the unit that was added last.
type candidate struct {
	set  []int
	last int
	cost Cost
}

// queue is a heap of candidates, the cheapest first.
type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(q[i].cost.Compare(q[j].cost), slices.Compare(q[i].set, q[j].set)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
