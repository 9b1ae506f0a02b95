package defrag

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/evict"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

const (
	// Exhaustive is the highest number of movers for which every set that might be the cheapest is tried.
	Exhaustive = 10
	// maxAlternatives bounds the sets on one node that are pursued for one pod, and maxNodes the nodes.
	maxAlternatives = 3
	maxNodes        = 64
	// maxLooks bounds the sets on one node that are looked at for one pod.
	maxLooks = 256
)

// Find looks for the cheapest plan. It tries what is enough for the first pod without a place, node by node, then for
// the next pod that has none, and so on, always with the cheapest set first; pods that are moved may move others in
// turn. With at most [Exhaustive] movers it then tries all sets that cost less than what it has found. Find calls step
// before every pod that it tries to place; if step returns an error, Find returns that error.
func Find(p Problem, step func() error) (Result, error) {
	s, base := newSearch(p, step)
	t, err := s.try(base)
	if err != nil {
		return Result{}, err
	}
	out := Result{Now: t.out, Without: t.out.First, Returning: s.returning(base)}
	if !p.allows(base) {
		t.plan = nil
	}
	if t.plan != nil || !p.allows(base) {
		out.Plan, out.Cheapest = t.plan, true
		return out, nil
	}
	if err := s.guided(base, t); err != nil {
		return Result{}, err
	}
	if len(p.Movers) <= Exhaustive {
		s.spent = false
		if err := s.exhaustive(base); err != nil {
			return Result{}, err
		}
		out.Cheapest = !s.spent
	} else if s.best != nil {
		out.Cheapest = s.proved(base, t)
	}
	out.Plan, out.Spent = s.best, s.spent
	return out, nil
}

// search is the state of Find.
type search struct {
	Problem
	step    func() error
	on      map[int][]int // movers by node, ascending
	trials  int
	spent   bool
	tried   map[string]bool
	cleared map[string]whatif.Node
	best    *Plan
}

// newSearch returns a search, and the movers that have to move.
func newSearch(p Problem, step func() error) (s *search, base []int) {
	s = &search{Problem: p, step: step, on: map[int][]int{}, tried: map[string]bool{}, cleared: map[string]whatif.Node{}}
	for i, m := range p.Movers {
		s.on[m.Node] = append(s.on[m.Node], i)
	}
	for _, at := range p.Empty {
		base = append(base, s.on[at]...)
	}
	slices.Sort(base)
	return s, base
}

// trial is the result for a set.
type trial struct {
	set  []int
	plan *Plan // nil if not everything has a place
	out  whatif.GangOutcome
	gang whatif.Gang
	// returning are the movers of the set, in their order in gang.
	returning []int
}

// returning returns movers in the order in which their successors get places.
func (s *search) returning(set []int) []int {
	out := slices.Clone(set)
	slices.SortStableFunc(out, func(i, j int) int {
		a, b := &s.Movers[i], &s.Movers[j]
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Started, b.Started))
	})
	return out
}

// try places everything once the pods of a set are evicted.
func (s *search) try(set []int) (t trial, err error) {
	s.trials++
	s.tried[fmt.Sprint(set)] = true
	plan := whatif.New(s.without(set), s.Rules)
	t = trial{set: set, returning: s.returning(set)}
	var back []whatif.Member
	for _, i := range t.returning {
		m := &s.Movers[i]
		id := m.Pod
		id.UID = "moved " + id.UID
		back = append(back, whatif.Member{ID: id, Want: m.Want})
	}
	if t.gang.Pods = slices.Concat(s.Pods, back); s.Last {
		t.gang.Pods = slices.Concat(back, s.Pods)
	}
	t.gang.Least = len(t.gang.Pods)
	if t.out, err = plan.Together(t.gang, s.step); err != nil || !t.out.Fits {
		return t, err
	}
	if slices.ContainsFunc(t.out.Placed, func(x whatif.Placement) bool { return x.Blind }) {
		return t, nil
	}
	found := &Plan{Cost: s.Cost(set), After: plan.Nodes(), Placed: t.out.Placed[:len(s.Pods)]}
	moved := t.out.Placed[len(s.Pods):]
	if s.Last {
		moved, found.Placed = t.out.Placed[:len(back)], t.out.Placed[len(back):]
	}
	for k, i := range t.returning {
		found.Moves = append(found.Moves, Move{i, moved[k]})
	}
	if s.Confirm == nil || s.Confirm(found) {
		t.plan = found
	}
	return t, nil
}

// without returns the nodes without the pods of a set.
func (s *search) without(set []int) []whatif.Node {
	nodes, gone := slices.Clone(s.Nodes), map[int][]int{}
	for _, i := range set {
		gone[s.Movers[i].Node] = append(gone[s.Movers[i].Node], i)
	}
	for at, movers := range gone {
		key := fmt.Sprint(movers)
		n, known := s.cleared[key]
		if !known {
			n = *s.after(&s.Nodes[at], movers)
			s.cleared[key] = n
		}
		nodes[at] = n
	}
	for _, at := range s.Empty {
		nodes[at].Gone = true
	}
	return nodes
}

// after returns a node without some movers.
func (s *search) after(n *whatif.Node, movers []int) *whatif.Node {
	var residents []whatif.Resident
	var all []int
	for k, i := range movers {
		residents, all = append(residents, s.Movers[i].Resident), append(all, k)
	}
	out := n.After(residents, all)
	out.Pods = slices.DeleteFunc(slices.Clone(n.Pods), func(x whatif.Resident) bool {
		return slices.ContainsFunc(residents, func(y whatif.Resident) bool { return x.Pod.UID == y.Pod.UID })
	})
	return out
}

// offer makes a plan the best one if it costs less.
func (s *search) offer(p *Plan) {
	if p != nil && (s.best == nil || p.Cost.Compare(s.best.Cost) < 0) {
		s.best = p
	}
}

// worth reports whether a set may be a better plan than the best one, and was not tried.
func (s *search) worth(set []int) bool {
	return s.allows(set) && (s.best == nil || s.Cost(set).Compare(s.best.Cost) < 0) && !s.tried[fmt.Sprint(set)]
}

// guided looks for a plan by making room for one pod after the other.
func (s *search) guided(base []int, t trial) error {
	q := &queue{}
	for {
		for _, set := range s.enlarged(t) {
			if s.worth(set) {
				s.tried[fmt.Sprint(set)] = true
				heap.Push(q, candidate{set: set, cost: s.Cost(set)})
			}
		}
		if q.Len() == 0 {
			return nil
		}
		if s.trials >= s.Trials {
			s.spent = true
			return nil
		}
		var err error
		if t, err = s.try(heap.Pop(q).(candidate).set); err != nil {
			return err
		}
		if t.plan != nil { // all others that wait cost at least as much
			s.offer(t.plan)
			return nil
		}
	}
}

// enlarged returns larger sets that are enough for the first pod without a place of a trial, beside the pods that got
// places in it.
func (s *search) enlarged(t trial) (out [][]int) {
	if t.out.First < 0 || len(t.set) >= s.Most {
		return nil
	}
	w := t.gang.Pods[t.out.First].Want
	nodes := s.occupied(t)
	type found struct {
		add  []int
		cost Cost
	}
	var all []found
	for at := range nodes {
		if nodes[at].Gone || w.Bars != nil && at < len(w.Bars.Why) && len(w.Bars.Why[at]) > 0 {
			continue
		}
		for _, add := range s.enough(&nodes[at], s.staying(at, t.set), w) {
			all = append(all, found{add, s.Cost(add)})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.cost.Compare(b.cost) })
	for _, x := range all[:min(len(all), maxNodes)] {
		set := slices.Concat(t.set, x.add)
		slices.Sort(set)
		out = append(out, set)
	}
	return out
}

// staying returns the movers of a node that are not in a set.
func (s *search) staying(at int, set []int) (out []int) {
	for _, i := range s.on[at] {
		if _, in := slices.BinarySearch(set, i); !in {
			out = append(out, i)
		}
	}
	return out
}

// occupied returns the nodes with the pods that got places in a trial that failed.
func (s *search) occupied(t trial) []whatif.Node {
	nodes := s.without(t.set)
	for k, x := range t.out.Placed {
		if x.Node == assign.Left {
			continue
		}
		n, w := &nodes[x.Node], t.gang.Pods[k].Want
		if n.State != nil && !w.Pod.Plain() {
			if next, ok := n.State.Join(x.Pod, w.Pod, w.Demand); ok {
				n.State = next
			}
		}
		n.Used = n.Used.Add(w.Needs)
	}
	return nodes
}

// enough returns sets of movers of a node without which a pod fits there, the cheapest first. None of them has a pod
// that need not go.
func (s *search) enough(n *whatif.Node, movers []int, w *whatif.Want) (out [][]int) {
	left := maxLooks
	works := func(set []int) bool {
		left--
		return s.Rules.Room(*s.after(n, set), w, 1) == 1
	}
	if len(movers) == 0 || !works(movers) {
		return nil
	}
	keep := func(set []int) {
		slices.Sort(set)
		if !slices.ContainsFunc(out, func(x []int) bool { return slices.Equal(x, set) }) {
			out = append(out, set)
		}
	}
	for _, pool := range s.pools(n, movers) {
		if left <= 0 {
			break
		}
		if len(pool) < len(movers) && !works(pool) {
			continue
		}
		// Once with the dear ones spared first, and once with the small ones, so that few large ones remain.
		for _, order := range [][]int{s.by(pool, s.dear), s.by(pool, s.small)} {
			gone := slices.Clone(pool)
			for _, i := range order {
				rest := slices.DeleteFunc(slices.Clone(gone), func(k int) bool { return k == i })
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
	found, _ := s.ascending(movers, maxLooks, func(c Cost) bool {
		return !slices.ContainsFunc(known, func(x []int) bool { return s.Cost(x).Compare(c) <= 0 })
	}, func(set []int) (bool, error) { return works(set), nil })
	return found
}

// ascending makes the sets of a pool in the order of their costs, as long as worth returns true, and returns the first
// for which works returns true; nil if there is none among the first limit ones.
func (s *search) ascending(
	pool []int,
	limit int,
	worth func(Cost) bool,
	works func([]int) (bool, error),
) ([]int, error) {
	order := slices.Clone(pool)
	slices.SortStableFunc(order, func(i, j int) int { return s.Cost([]int{i}).Compare(s.Cost([]int{j})) })
	q := &queue{}
	push := func(from []int, k int) {
		set := append(slices.Clone(from), order[k])
		slices.Sort(set)
		if c := s.Cost(set); worth(c) && s.allows(set) {
			heap.Push(q, candidate{set, k, c})
		}
	}
	for k := range order {
		push(nil, k)
	}
	for ; q.Len() > 0; limit-- {
		if limit == 0 {
			s.spent = true
			return nil, nil
		}
		c := heap.Pop(q).(candidate)
		if ok, err := works(c.set); ok || err != nil {
			return c.set, err
		}
		for k := c.last + 1; k < len(order); k++ { // each set is made once
			push(c.set, k)
		}
	}
	return nil, nil
}

// exhaustive tries all sets with the movers of base that cost less than the best one, the cheapest first.
func (s *search) exhaustive(base []int) error {
	var others []int
	for i := range s.Movers {
		if _, in := slices.BinarySearch(base, i); !in {
			others = append(others, i)
		}
	}
	whole := func(set []int) []int {
		out := slices.Concat(base, set)
		slices.Sort(out)
		return out
	}
	_, err := s.ascending(others, 1<<Exhaustive+1, func(Cost) bool { return true }, func(set []int) (bool, error) {
		all := whole(set)
		switch {
		case !s.allows(all) || s.best != nil && s.Cost(all).Compare(s.best.Cost) >= 0:
			return false, nil
		case s.trials >= s.Trials:
			s.spent = true
			return true, nil
		}
		t, err := s.try(all)
		s.offer(t.plan)
		return t.plan != nil, err
	})
	return err
}

// proved reports whether it is certain that no set costs less than the best one: if a single pod lacks a place, and no
// set of the movers of any one node that costs less is enough for it, even if none of them needed another place.
func (s *search) proved(base []int, t trial) bool {
	if len(base) > 0 || len(s.Pods) != 1 || s.Last {
		return false
	}
	w := s.Pods[0].Want
	if w.Peers != nil || w.Demand.Relates() {
		return false
	}
	spent := s.spent
	defer func() { s.spent = spent }()
	for at, movers := range s.on {
		n := &s.Nodes[at]
		if w.Bars != nil && at < len(w.Bars.Why) && len(w.Bars.Why[at]) > 0 {
			continue
		}
		s.spent = false
		set, _ := s.ascending(movers, maxLooks, func(c Cost) bool { return c.Compare(s.best.Cost) < 0 },
			func(set []int) (bool, error) { return s.Rules.Room(*s.after(n, set), w, 1) == 1, nil })
		if set != nil || s.spent {
			return false
		}
	}
	return true
}

// candidate is a set to be tried; last is the position in the order of the pool of the mover that was added last.
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
