package defrag

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/assign"
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
	// dearTrial is how many more trials one counts for in which a search reached its bound.
	dearTrial = 20
)

// Find looks for the cheapest plan. It tries what is enough for the first pod without a place, node by node, then for
// the next pod that has none, and so on, always with the cheapest set first; pods that are moved may move others in
// turn. If half of the trials find none for several goals, it makes room for one goal after the other. With at most
// [Exhaustive] movers it then tries all sets that cost less than what it has found. Find calls step before every pod
// that it tries to place; if step returns an error, Find returns that error.
func Find(p Problem, step func() error) (Result, error) {
	s, base := newSearch(p, step)
	t, err := s.try(base)
	if err != nil {
		return Result{}, err
	}
	out := Result{Now: t.out, Beyond: !p.allows(base), Have: len(base)}
	if t.out.First >= 0 {
		out.Without = t.gang.Pods[t.out.First].ID
	}
	if out.Beyond || t.plan != nil {
		if out.Cheapest = true; !out.Beyond {
			out.Plan = t.plan
		}
		return out, nil
	}
	if s.limit = p.Trials; len(p.Pods) > 1 {
		s.limit = p.Trials / 2
	}
	if err := s.guided(base, t); err != nil {
		return Result{}, err
	}
	if s.limit = p.Trials; s.best == nil && len(p.Pods) > 1 {
		if err := s.stepwise(base); err != nil {
			return Result{}, err
		}
	}
	if len(p.Movers) <= Exhaustive {
		s.spent = false
		err = s.exhaustive(base)
		out.Cheapest = !s.spent && !s.unsure
	} else if s.best != nil {
		out.Cheapest, err = s.proved(base)
	}
	out.Plan, out.Spent = s.best, s.spent
	if s.unanswered() {
		out.Cheapest, out.Spent = false, true
	}
	return out, err
}

// unanswered reports whether it could not be found out for some pod on some node whether it gets devices there.
func (s *search) unanswered() bool {
	unsure := func(w *whatif.Want) bool { return w != nil && w.Devices != nil && w.Devices.Unsure() }
	return slices.ContainsFunc(s.Pods, func(g Goal) bool { return unsure(g.Want) }) ||
		slices.ContainsFunc(s.Movers, func(m Mover) bool { return unsure(m.Want) })
}

// search is the state of Find.
type search struct {
	Problem
	step    func() error
	failed  error         // of step, in a look
	on      map[int][]int // movers by node, ascending
	whole   map[int][]int // movers of gangs that move as a whole, by gang, ascending
	trials  int
	limit   int // of trials, for the present part of the search
	looks   int
	spent   bool
	unsure  bool // some set was refused that may be enough
	tried   map[string]bool
	cleared map[string]whatif.Node
	known   map[string][][]int // what is enough on nodes as they are; see enoughOn
	best    *Plan
}

// trial is the result for a set.
type trial struct {
	set  []int
	plan *Plan // nil if not everything has a place
	out  whatif.GangOutcome
	gang whatif.Gang
}

// newSearch returns a search, and the movers that have to move.
func newSearch(p Problem, step func() error) (s *search, base []int) {
	s = &search{Problem: p, step: step, on: map[int][]int{}, whole: map[int][]int{}, tried: map[string]bool{},
		cleared: map[string]whatif.Node{}, known: map[string][][]int{}}
	for i, m := range p.Movers {
		if m.Gang > 0 && p.Gangs[m.Gang-1].Whole {
			s.whole[m.Gang] = append(s.whole[m.Gang], i)
		}
	}
	for i, m := range p.Movers {
		if all := s.with(i); s.allows(all) {
			s.on[m.Node] = append(s.on[m.Node], i)
		}
		if slices.Contains(p.Empty, m.Node) {
			base = append(base, i)
		}
	}
	return s, s.closed(append(base, p.Must...))
}

// with returns the movers that move if a mover does, ascending: itself, or its gang.
func (s *search) with(mover int) []int {
	if g := s.Movers[mover].Gang; g > 0 && s.Gangs[g-1].Whole {
		return s.whole[g]
	}
	return []int{mover}
}

// closed returns a set with all other movers that move if its own do, ascending.
func (s *search) closed(set []int) (out []int) {
	for _, i := range set {
		out = append(out, s.with(i)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// turn is a pod that gets a place: a goal, or the successor of a mover.
type turn struct {
	goal, mover int // index, or -1
	priority    int32
}

// order returns who gets a place when, once the pods of a set are evicted: by priority, as the scheduler takes pods,
// and of equal ones first the goals that wait. Goals that come later are last.
func (s *search) order(set []int) (out []turn) {
	var later []turn
	for i := range s.Pods {
		if x := (turn{i, -1, s.Pods[i].Priority}); s.Pods[i].Later {
			later = append(later, x)
		} else {
			out = append(out, x)
		}
	}
	back := slices.Clone(set)
	slices.SortStableFunc(back, func(i, j int) int { return cmp.Compare(s.Movers[i].Started, s.Movers[j].Started) })
	for _, i := range back {
		out = append(out, turn{-1, i, s.Movers[i].Priority})
	}
	slices.SortStableFunc(out, func(a, b turn) int { return cmp.Compare(b.priority, a.priority) })
	return append(out, later...)
}

// try places everything once the pods of a set are evicted.
func (s *search) try(set []int) (t trial, err error) {
	s.trials++
	s.tried[fmt.Sprint(set)] = true
	plan, order := whatif.New(s.without(set), s.Rules), s.order(set)
	t = trial{set: set, gang: whatif.Gang{Least: len(order)}}
	for _, x := range order {
		if x.goal >= 0 {
			t.gang.Pods = append(t.gang.Pods, s.Pods[x.goal].Member)
			continue
		}
		t.gang.Pods = append(t.gang.Pods, s.successor(x.mover))
	}
	if t.out, err = plan.Together(t.gang, s.step); err != nil {
		return t, err
	}
	if t.out.Doubt == whatif.Budget {
		s.trials += dearTrial
	}
	if !t.out.Fits || slices.ContainsFunc(t.out.Placed, func(x whatif.Placement) bool { return x.Blind }) {
		s.unsure = s.unsure || !s.certain(t)
		return t, nil
	}
	found := &Plan{Cost: s.Cost(set), After: plan.Nodes(), Placed: make([]whatif.Placement, len(s.Pods)),
		Order: t.out.Placed}
	for k, x := range order {
		if x.goal >= 0 {
			found.Placed[x.goal] = t.out.Placed[k]
		} else {
			found.Moves = append(found.Moves, Move{x.mover, t.out.Placed[k]})
		}
	}
	if found.Forced, err = s.forced(t); err != nil {
		return t, err
	}
	if s.Confirm == nil || s.Confirm(found) {
		t.plan = found
	}
	return t, nil
}

// successor returns the pod that is created in the place of a mover.
func (s *search) successor(mover int) whatif.Member {
	id := s.Movers[mover].Pod
	id.UID = "moved " + id.UID
	return whatif.Member{ID: id, Want: s.Movers[mover].Want}
}

// forced reports whether not all pods of a trial get places if each takes the best node at its turn.
func (s *search) forced(t trial) (bool, error) {
	plan := whatif.New(s.without(t.set), s.Rules)
	for _, m := range t.gang.Pods {
		out, err := plan.Together(whatif.Gang{Pods: []whatif.Member{m}, Least: 1}, s.step)
		if err != nil || !out.Fits {
			return true, err
		}
	}
	return false, nil
}

// certain reports whether it is certain that the pods of a trial have no places: the search for them was complete, or
// the first pod without a place fits nowhere, even alone. Pods that hold nothing exclusively, and pods with devices of
// claims, are placed one by one, so that other places for them are not searched.
func (s *search) certain(t trial) bool {
	plain := slices.ContainsFunc(t.gang.Pods, func(m whatif.Member) bool {
		return m.Want.Pod.Plain() || m.Want.Devices != nil
	})
	if t.out.First < 0 {
		return false
	}
	if t.out.Doubt == whatif.None && (!plain || len(t.gang.Pods) == 1) {
		return true
	}
	w, nodes := t.gang.Pods[t.out.First].Want, s.without(t.set)
	return !slices.ContainsFunc(s.open(w), func(at int) bool { return s.takes(&nodes[at], w) })
}

// open returns the nodes from which nothing but amounts and NUMA nodes keeps a pod.
func (s *search) open(w *whatif.Want) (out []int) {
	for at := range s.Nodes {
		if slices.Contains(s.Empty, at) || s.Nodes[at].Gone ||
			w.Bars != nil && at < len(w.Bars.Why) && len(w.Bars.Why[at]) > 0 {
			continue
		}
		out = append(out, at)
	}
	return out
}

// takes reports whether a node takes a pod. Beyond the bound of looks, or after an error of step, it returns false.
func (s *search) takes(n *whatif.Node, w *whatif.Want) bool {
	if s.looks++; s.looks > s.Looks {
		s.spent = true
		return false
	}
	if s.failed == nil && s.looks%64 == 0 {
		s.failed = s.step()
	}
	return s.failed == nil && s.Rules.Room(*n, w, 1) == 1
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

// after returns a node without some movers, as far as they are there.
func (s *search) after(n *whatif.Node, movers []int) *whatif.Node {
	var residents []whatif.Resident
	var all []int
	for _, i := range movers {
		if s.Nodes[s.Movers[i].Node].Name == n.Name {
			residents, all = append(residents, s.Movers[i].Resident), append(all, len(all))
		}
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
		all := s.enlarged(t)
		if s.failed != nil {
			return s.failed
		}
		for _, set := range all {
			if s.worth(set) {
				s.tried[fmt.Sprint(set)] = true
				heap.Push(q, candidate{set: set, cost: s.Cost(set)})
			}
		}
		if q.Len() == 0 {
			return nil
		}
		if s.trials >= s.limit {
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

// stepwise makes room for one goal after the other: what has moved for the first ones moves in any case.
func (s *search) stepwise(base []int) error {
	all, confirm, set := s.Pods, s.Confirm, base
	defer func() { s.Pods, s.Confirm = all, confirm }()
	for k := range all {
		s.Pods, s.best, s.tried = all[:k+1], nil, map[string]bool{}
		if s.Confirm = nil; k == len(all)-1 {
			s.Confirm = confirm
		}
		t, err := s.try(set)
		if err != nil {
			return err
		}
		s.offer(t.plan)
		if s.best == nil {
			if err := s.guided(set, t); err != nil || s.best == nil {
				return err
			}
		}
		set = nil
		for _, m := range s.best.Moves {
			set = append(set, m.Mover)
		}
		slices.Sort(set)
	}
	return nil
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
	changed, kind := t.changed(s), kindOf(w)
	for _, at := range s.open(w) {
		for _, add := range s.enoughOn(at, &nodes[at], changed[at], kind, t.set, w) {
			all = append(all, found{add, s.Cost(add)})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.cost.Compare(b.cost) })
	for _, x := range all[:min(len(all), maxNodes)] {
		out = append(out, union(t.set, x.add))
	}
	return out
}

// kindOf returns a text that is equal for pods that the same nodes take, apart from labels and other pods.
func kindOf(w *whatif.Want) string {
	return fmt.Sprintf("%s %v %v %s %p", w.Pod.Shape(), w.Needs, w.Demand, w.Request, w.Devices)
}

// changed returns the nodes that differ in a trial from what they are.
func (t *trial) changed(s *search) map[int]bool {
	out := map[int]bool{}
	for _, i := range t.set {
		out[s.Movers[i].Node] = true
	}
	for _, x := range t.out.Placed {
		out[x.Node] = true
	}
	return out
}

// enoughOn is enough for a pod of a kind on a node. What is enough on a node that has not changed is computed once.
func (s *search) enoughOn(at int, n *whatif.Node, changed bool, kind string, set []int, w *whatif.Want) [][]int {
	takes := func(n *whatif.Node) bool { return s.takes(n, w) }
	if changed {
		return s.enough(n, s.staying(at, set), takes)
	}
	key := fmt.Sprint(at, " ", kind)
	out, known := s.known[key]
	if !known {
		out = s.enough(n, s.on[at], takes)
		if !s.spent && s.failed == nil {
			s.known[key] = out
		}
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
		n.Give(w, x.Holdings)
	}
	return nodes
}

// exhaustive tries all sets with the movers of base that cost less than the best one, the cheapest first.
func (s *search) exhaustive(base []int) error {
	var others []int
	for i := range s.Movers {
		if _, in := slices.BinarySearch(base, i); !in {
			others = append(others, i)
		}
	}
	worth := func(c Cost) bool { return s.best == nil || c.Compare(s.best.Cost) < 0 }
	_, cut, err := s.ascending(base, others, 1<<Exhaustive+1, worth, func(set []int) (bool, error) {
		if !worth(s.Cost(set)) {
			return false, nil
		}
		if s.trials >= s.Trials {
			s.spent = true
			return true, nil
		}
		t, err := s.try(set)
		s.offer(t.plan)
		return t.plan != nil, err
	})
	s.spent = s.spent || cut
	return err
}

// proved reports whether it is certain that no set costs less than the best one: if a single pod lacks a place, and no
// set of the movers of any one node that costs less is enough for it, even if none of them needed another place.
func (s *search) proved(base []int) (bool, error) {
	if len(base) > 0 || len(s.Pods) != 1 || s.Pods[0].Later {
		return false, nil
	}
	w := s.Pods[0].Want
	if w.Peers != nil || w.Demand.Relates() {
		return false, nil
	}
	// With a higher priority than the pod's, successors of movers may get places before it, which only takes room.
	spent := s.spent
	for _, at := range s.open(w) {
		n := &s.Nodes[at]
		set, cut, err := s.ascending(nil, s.on[at], maxLooks, func(c Cost) bool { return c.Compare(s.best.Cost) < 0 },
			func(set []int) (bool, error) { return s.takes(s.after(n, set), w), s.failed })
		if set != nil || cut || err != nil || s.spent != spent {
			s.spent = spent
			return false, err
		}
	}
	return true, nil
}
