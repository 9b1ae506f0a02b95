package evict

import (
	"cmp"
	"container/heap"
	"slices"
	"strconv"
)

// search is the state of one choice.
type search struct {
	p     *Problem
	tests int             // calls of Works
	steps int             // total size of the sets that were queued
	tried map[string]bool // results of Works
	best  Choice
	found bool // best has a set
}

// works reports whether a set works. It calls Works once per set.
func (s *search) works(set []int) bool {
	var key []byte
	for _, i := range set {
		key = append(strconv.AppendInt(key, int64(i), 36), ',')
	}
	works, known := s.tried[string(key)]
	if !known {
		s.tests++
		works = s.p.Works(set)
		s.tried[string(key)] = works
	}
	return works
}

// offer makes a set that works the best one if it costs less.
func (s *search) offer(set []int) {
	c := s.p.Cost(set)
	if d := c.Compare(s.best.Cost); !s.found || d < 0 || d == 0 && slices.Compare(set, s.best.Set) < 0 {
		s.best, s.found = Choice{Set: slices.Clone(set), Cost: c}, true
	}
}

// reprieve goes through the victims of a set that works, in the given order, and takes each one out if the set still
// works without it. It offers the remaining set.
func (s *search) reprieve(set, order []int) {
	gone := slices.Clone(set)
	for _, v := range order {
		if rest := without(gone, v); len(rest) > 0 && s.works(rest) {
			gone = rest
		}
	}
	s.offer(gone)
}

// trim reprieves victims of the best set, in the order of importantFirst.
func (s *search) trim() { s.reprieve(s.best.Set, s.importantFirst(s.best.Set)) }

// importantFirst returns the victims in kube-scheduler's order of reprieving them: first the victims whose budget would
// be violated, then all others, the most important first in both parts.
func (s *search) importantFirst(set []int) []int {
	out, violates := s.p.byImportance(set), s.p.violators(set)
	slices.SortStableFunc(out, func(i, j int) int { return before(violates[i], violates[j]) })
	return out
}

// smallFirst returns the victims in the order of importantFirst, but among victims of equal priority the smaller ones
// first. If they are reprieved in this order, few large ones remain.
func (s *search) smallFirst(set []int) []int {
	out, violates := s.p.byImportance(set), s.p.violators(set)
	slices.SortStableFunc(out, func(i, j int) int {
		a, b := s.p.Victims[i], s.p.Victims[j]
		return cmp.Or(before(violates[i], violates[j]), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Size, b.Size))
	})
	return out
}

// before orders true before false.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// without returns the set without the victim v.
func without(set []int, v int) []int {
	return slices.DeleteFunc(slices.Clone(set), func(i int) bool { return i == v })
}

// cheapest tries the sets of a pool that cost less than the best set, in the order of their costs, until one works.
// It tries at most limit sets. A set never costs less than a part of it, so the first one that works is the cheapest
// of the pool.
func (s *search) cheapest(pool []int, limit int) {
	order := s.p.byImportance(pool)
	roots := len(order)
	if len(pool) > Exhaustive {
		order, roots = s.narrow(order)
	}
	var q queue
	push := func(from []int, k int) {
		if s.steps += len(from) + 1; s.steps > maxSteps {
			return
		}
		set := append(slices.Clone(from), order[k])
		slices.Sort(set)
		if c := s.p.Cost(set); c.Compare(s.best.Cost) < 0 {
			heap.Push(&q, candidate{set, k, c})
		}
	}
	for k := range roots {
		push(nil, k)
	}
	for ; len(q) > 0 && limit > 0; limit-- {
		c := heap.Pop(&q).(candidate)
		if s.works(c.set) {
			s.offer(c.set)
			return
		}
		// Each larger set is made once, by adding a victim that is later in the order than all victims of the set.
		for k := c.last + 1; k < len(order) && s.steps <= maxSteps; k++ {
			push(c.set, k)
		}
	}
}

// narrow leaves out victims of a higher priority than the best set has. If all victims of lower priorities together
// do not work, every set needs a victim of the best set's highest priority. roots is then the number of victims with
// this priority. They are first in out, and only they may be the first victim of a set. Otherwise any victim may be
// the first one, and roots is the length of out. If the best set violates a budget, narrow leaves out nothing.
func (s *search) narrow(order []int) (out []int, roots int) {
	if s.best.Cost.Violations > 0 {
		return order, len(order) // a higher priority may cost less
	}
	firstBelow := func(priority int32) int {
		k := slices.IndexFunc(order, func(i int) bool { return s.p.Victims[i].Priority < priority })
		if k < 0 {
			return len(order)
		}
		return k
	}
	highest := s.best.Cost.Highest
	lower := order[firstBelow(highest):]
	for k := range order {
		if s.p.Victims[order[k]].Priority <= highest {
			out = order[k:]
			break
		}
	}
	if len(lower) > 0 && s.works(s.normalized(lower)) {
		return out, len(out)
	}
	return out, len(out) - len(lower)
}

// candidate is a set to be tried; last is the position in the order of the victim that was added last.
type candidate struct {
	set  []int
	last int
	cost Cost
}

// queue is a heap of candidates, the cheapest first.
type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if d := q[i].cost.Compare(q[j].cost); d != 0 {
		return d < 0
	}
	return slices.Compare(q[i].set, q[j].set) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
