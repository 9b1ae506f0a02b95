package defrag

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tenon-numa/tenon/core/whatif"
)

// This file finds moves after which more pods of the usual workload fit. No pod waits for the room, so no risk is
// taken for it: pods move one after the other, each to a place that is free before the pod is evicted.

// Usual is the workload for which room is to be made.
type Usual struct {
	Shapes []Shape
	// Closed are positions of nodes that take no new pods. What fits there does not count.
	Closed []int
}

// Shape is a shape of pods that the cluster usually runs.
type Shape struct {
	Want *whatif.Want
	// Worth is what room for one more pod is worth, at least 1.
	Worth int64
	// Least, if not nil, is how many pods have to fit after a plan, where more fit now; a plan that is carried out in
	// part has it from its beginning.
	Least *int
}

// Fit is how many more pods of a shape fit on all nodes together, before and after a plan. Each shape is counted by
// itself.
type Fit struct{ Before, After int }

// FindUsual looks for the plan after which the sum of what the fitting pods are worth is highest, and of such plans for
// the one that costs least. After a plan, no shape fits less often than before, or than its Least. The pods move one
// after the other, by priority and age: of the nodes that have room for a successor before the pod leaves, it gets the
// one that the scheduler would choose after that. If no plan is better than no moves, the plan has none. The fits are
// in the order of the shapes.
//
// It evicts what makes room on single nodes for one more pod of a shape, the set first that brings most for each of its
// pods. Shapes that are worth most should come first in w. With at most [Exhaustive] movers it then tries all sets. It
// does not use p.Pods, p.Empty and p.Must, and moves no gang that moves as a whole. It calls step before every pod that
// it tries to place; if step returns an error, FindUsual returns that error.
func FindUsual(p Problem, w Usual, step func() error) (out Result, fits []Fit, err error) {
	u, err := newUsual(p, w, step)
	if err != nil {
		return out, nil, err
	}
	if err = u.greedy(); err == nil {
		err = u.leaner()
	}
	if err == nil && len(p.Movers) <= Exhaustive {
		u.spent = false
		err = u.all()
		out.Cheapest = !u.spent
	}
	if err = cmp.Or(err, u.failed); err != nil {
		return out, nil, err
	}
	out.Plan, out.Spent = u.top.plan, u.spent
	if u.unanswered() {
		out.Cheapest, out.Spent = false, true
	}
	return out, u.fits(u.top), nil
}

// usual is the state of FindUsual.
type usual struct {
	*search
	Usual

	plan  *whatif.Plan // with all pods where they are
	room  [][]int      // how many pods of each shape fit on each node now
	still *outcome     // without any moves
	top   *outcome     // the best one
	tries map[string]*outcome
}

// outcome is the result of moving a set. Its plan is nil if a successor has no place.
type outcome struct {
	plan  *Plan
	fit   []int // pods of each shape
	worth int64
}

func newUsual(p Problem, w Usual, step func() error) (*usual, error) {
	p.Pods, p.Empty, p.Must = nil, nil, nil
	p.Gangs = slices.Clone(p.Gangs)
	for i := range p.Gangs {
		if p.Gangs[i].Whole {
			p.Gangs[i] = Gang{}
		}
	}
	u := &usual{Usual: w, plan: whatif.New(p.Nodes, p.Rules), tries: map[string]*outcome{}}
	u.search, _ = newSearch(p, step)
	u.still = &outcome{plan: &Plan{After: p.Nodes}, fit: make([]int, len(w.Shapes))}
	for i := range w.Shapes {
		u.room = append(u.room, make([]int, len(p.Nodes)))
		for at := range p.Nodes {
			if err := step(); err != nil {
				return nil, err
			}
			u.room[i][at] = u.count(i, at, &p.Nodes[at])
			u.still.fit[i] += u.room[i][at]
		}
	}
	u.still.worth = u.worthOf(u.still.fit)
	u.top = u.still
	return u, nil
}

// count returns how many more pods of a shape fit on a node at a position.
func (u *usual) count(shape, at int, n *whatif.Node) int {
	if slices.Contains(u.Closed, at) {
		return 0
	}
	return u.Rules.Room(*n, u.Shapes[shape].Want, whatif.MaxSlots)
}

func (u *usual) worthOf(fit []int) (sum int64) {
	for i, n := range fit {
		sum += int64(n) * u.Shapes[i].Worth
	}
	return sum
}

// fits compares an outcome with what fits now.
func (u *usual) fits(o *outcome) (out []Fit) {
	for i := range u.Shapes {
		out = append(out, Fit{u.still.fit[i], o.fit[i]})
	}
	return out
}

// try finds out what becomes of a set, which is sorted, and makes it the best one if it is.
func (u *usual) try(set []int) (*outcome, error) {
	key := fmt.Sprint(set)
	if o, known := u.tries[key]; known {
		return o, nil
	}
	u.trials++
	o, err := u.moved(set)
	if err != nil {
		return nil, err
	}
	if o.plan != nil && (u.loses(o) || u.Confirm != nil && !u.Confirm(o.plan)) {
		o = &outcome{}
	}
	u.tries[key] = o
	if o.plan != nil && cmp.Or(cmp.Compare(u.top.worth, o.worth), o.plan.Cost.Compare(u.top.plan.Cost)) < 0 {
		u.top = o
	}
	return o, nil
}

// loses reports whether fewer pods of some shape fit than now, or than have to fit.
func (u *usual) loses(o *outcome) bool {
	for i, n := range o.fit {
		least := u.still.fit[i]
		if at := u.Shapes[i].Least; at != nil {
			least = min(least, *at)
		}
		if n < least {
			return true
		}
	}
	return false
}

// moved returns the outcome of moving a set.
func (u *usual) moved(set []int) (*outcome, error) {
	var all []whatif.Succession
	order := u.order(set)
	for _, x := range order {
		all = append(all, whatif.Succession{Member: u.successor(x.mover), From: u.Movers[x.mover].Node,
			Leave: func(n whatif.Node) whatif.Node { return *u.after(&n, []int{x.mover}) }})
	}
	places, after, err := u.plan.Succeed(all, u.step)
	if err != nil || places == nil || slices.ContainsFunc(places, func(x whatif.Placement) bool { return x.Blind }) {
		return &outcome{}, err
	}
	out := &outcome{plan: &Plan{Cost: u.Cost(set), Order: places, After: after}, fit: slices.Clone(u.still.fit)}
	changed := map[int]bool{}
	for k, x := range order {
		out.plan.Moves = append(out.plan.Moves, Move{x.mover, places[k]})
		changed[places[k].Node], changed[u.Movers[x.mover].Node] = true, true
	}
	for at := range changed {
		for i := range u.Shapes {
			out.fit[i] += u.count(i, at, &after[at]) - u.room[i][at]
		}
	}
	out.worth = u.worthOf(out.fit)
	return out, nil
}

// addition is a set of movers of one node without which more fits there.
type addition struct {
	set []int
	// gain is what its last trial brought beside the moves so far, for each pod. Before its first trial it is infinite.
	gain float64
	hope float64 // the worth of one more pod that fits, for each pod of the set
}

// additions returns sets on single nodes without which one more pod of a shape fits there: what is enough, and each
// mover that is enough alone. They are at most half of the trials, those with the highest hope.
func (u *usual) additions() (out []addition) {
	seen := map[string]bool{}
	for i, shape := range u.Shapes {
		for at := range u.Nodes {
			if slices.Contains(u.Closed, at) || u.spent || u.failed != nil {
				continue
			}
			have := u.room[i][at]
			more := func(n *whatif.Node) bool {
				u.looks += have
				return u.takes(n, shape.Want) && u.Rules.Room(*n, shape.Want, have+1) > have
			}
			sets := u.enough(&u.Nodes[at], u.on[at], more)
			for _, k := range u.on[at] {
				if len(sets) > 0 && more(u.after(&u.Nodes[at], []int{k})) {
					sets = append(sets, []int{k})
				}
			}
			for _, set := range sets {
				if key := fmt.Sprint(set); !seen[key] {
					seen[key] = true
					out = append(out, addition{set, math.Inf(1), float64(shape.Worth) / float64(len(set))})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b addition) int { return cmp.Compare(b.hope, a.hope) })
	if most := max(1, u.Trials/2); len(out) > most {
		u.spent, out = true, out[:most]
	}
	return out
}

// greedy adds one set after the other, each time the one that brings most for each of its pods, and two at a time where
// no single one brings anything.
func (u *usual) greedy() error {
	all := u.additions()
	set, base := []int(nil), u.still
	for {
		next, err := u.best(all, set, base)
		if err == nil && next == nil {
			next, err = u.pair(all, set, base)
		}
		if err != nil || next == nil {
			return err
		}
		set, base = next, u.tries[fmt.Sprint(next)]
	}
}

// best returns a set with the addition that brings most for each of its pods beside it; nil if none brings anything.
// What an addition brought the last time bounds what it is taken to bring now, so few are tried again.
func (u *usual) best(all []addition, set []int, base *outcome) (next []int, err error) {
	most := 0.0
	slices.SortStableFunc(all, func(a, b addition) int { return cmp.Compare(b.gain, a.gain) })
	for i := range all {
		if all[i].gain <= most {
			break
		}
		with := union(set, all[i].set)
		if len(with) == len(set) {
			continue
		}
		if all[i].gain, err = u.gain(with, set, base); err != nil {
			return nil, err
		}
		if all[i].gain > most {
			next, most = with, all[i].gain
		}
	}
	return next, nil
}

// pair returns a set with two additions that bring something together; nil if none are found.
func (u *usual) pair(all []addition, set []int, base *outcome) ([]int, error) {
	for j := range min(len(all), maxNodes) {
		for i := range j {
			with := union(set, union(all[i].set, all[j].set))
			if gain, err := u.gain(with, set, base); err != nil || gain > 0 {
				return with, err
			}
		}
	}
	return nil, nil
}

// gain returns what a set brings beside a part of it, for each pod; 0 beyond the bound of trials, or if the set is no
// plan.
func (u *usual) gain(with, set []int, base *outcome) (float64, error) {
	if len(with) == len(set) || !u.allows(with) {
		return 0, nil
	}
	if u.trials >= u.Trials {
		u.spent = true
		return 0, nil
	}
	o, err := u.try(with)
	if err != nil || o.plan == nil {
		return 0, err
	}
	return float64(o.worth-base.worth) / float64(len(with)-len(set)), nil
}

// union returns the union of two sorted sets.
func union(a, b []int) []int {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// leaner leaves movers out of the best set as long as that costs nothing of what fits.
func (u *usual) leaner() error {
	for before := (*outcome)(nil); before != u.top; {
		before = u.top
		for _, i := range u.by(movers(u.top.plan), u.dear) {
			rest := slices.DeleteFunc(movers(u.top.plan), func(k int) bool { return k == i })
			if len(rest) == 0 || u.trials >= u.Trials {
				break
			}
			if _, err := u.try(rest); err != nil {
				return err
			}
		}
	}
	return nil
}

// movers returns the movers of a plan, ascending.
func movers(p *Plan) (out []int) {
	for _, m := range p.Moves {
		out = append(out, m.Mover)
	}
	slices.Sort(out)
	return out
}

// all tries all sets.
func (u *usual) all() error {
	var movers []int
	for i := range u.Movers {
		movers = append(movers, i)
	}
	_, cut, err := u.ascending(nil, movers, 1<<Exhaustive+1, func(Cost) bool { return true },
		func(set []int) (bool, error) {
			if u.trials >= u.Trials {
				u.spent = true
				return true, nil
			}
			_, err := u.try(set)
			return false, err
		})
	u.spent = u.spent || cut
	return err
}
