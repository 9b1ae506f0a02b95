// Package defrag finds the cheapest pods to move so that others get room.
//
// A pod moves by being evicted: its controller creates one like it, which gets a place as any new pod does. Invariant:
// a [Plan] has a place for each pod that is to get room and for each pod that it moves, all at the same time, as
// package whatif places them; it moves no pod that is not among the movers, and no more than the disruption budgets
// allow, and of a gang that moves as a whole all pods or none. If [Result.Cheapest] is set, no other set of movers that
// does so costs less. The package refuses nothing else: which pods may move, and what that costs, is the caller's
// decision.
package defrag

import (
	"cmp"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Mover is a pod that may be evicted.
type Mover struct {
	whatif.Resident

	Node int // position
	// Want is what the pod wants that its controller creates in its place.
	Want *whatif.Want
	// Weight is what it costs to move the pod, at least 1.
	Weight   int64
	Priority int32
	// Started is when the pod started, in any unit; the older of two pods has the smaller value.
	Started int64
	// Budgets are indices in Problem.Budgets: the disruption budgets that its eviction counts against.
	Budgets []int
	// Gang is the position of its gang in Problem.Gangs, from 1 on; 0 for a pod that may move whatever others do.
	Gang int
}

// Gang has some of the movers.
type Gang struct {
	// Name names it for people.
	Name string
	// Most is how many of them may move, since one of them has to stay where it is, for example.
	Most int
	// Whole: they move together. Either none of them moves, or as many as Most; if fewer are movers, none may move.
	Whole bool
}

// Problem is what [Find] solves.
type Problem struct {
	Nodes []whatif.Node
	Rules whatif.Rules
	// Pods have to get places.
	Pods []Goal
	// Empty are positions of nodes. All movers there move, and nothing is placed there.
	Empty []int
	// Movers are the pods that may move, and Must are indices of those that have to. Budgets are the evictions that
	// disruption budgets allow.
	Movers  []Mover
	Must    []int
	Budgets []int
	Gangs   []Gang
	// Most is the largest number of pods that may move.
	Most int
	// Confirm has the last word about a plan, for rules that Nodes and Wants do not have; nil confirms every plan.
	Confirm func(*Plan) bool
	// Trials bounds the sets of movers that are tried; each takes about as long as placing Pods and these movers.
	// Looks bounds how often it is tried whether a single pod fits on a node without some of its movers.
	Trials, Looks int
}

// Goal is a pod that has to get a place. It waits, and so comes before successors of no higher priority, or it comes
// Later than all of them.
type Goal struct {
	whatif.Member

	Priority int32
	Later    bool
}

// Cost is the cost of moving some pods; see Compare.
type Cost struct {
	Weight  int64
	Pods    int
	Highest int32 // priority
	Sum     int64 // of the priorities, each as its distance above the lowest possible one
	Oldest  int64 // the start of the oldest pod
}

// Compare orders costs: a smaller weight, fewer pods, a lower highest priority, a smaller sum of priorities, and then
// pods that started later. It is negative if c is the lower cost. A set costs more than any part of it.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.Weight, d.Weight), cmp.Compare(c.Pods, d.Pods), cmp.Compare(c.Highest, d.Highest),
		cmp.Compare(c.Sum, d.Sum), cmp.Compare(d.Oldest, c.Oldest))
}

// lowest is below every priority.
const lowest = int64(-1<<31) - 1

// Cost returns the cost of a set of movers.
func (p *Problem) Cost(set []int) Cost {
	var c Cost
	for k, i := range set {
		m := &p.Movers[i]
		c.Weight += max(1, m.Weight)
		c.Sum += int64(m.Priority) - lowest
		if k == 0 || m.Priority > c.Highest {
			c.Highest = m.Priority
		}
		if k == 0 || m.Started < c.Oldest {
			c.Oldest = m.Started
		}
	}
	c.Pods = len(set)
	return c
}

// allows reports whether a set is within the most, the budgets and what gangs allow.
func (p *Problem) allows(set []int) bool {
	if len(set) > p.Most {
		return false
	}
	var used, left map[int]int
	for _, i := range set {
		if g := p.Movers[i].Gang; g > 0 {
			if left == nil {
				left = map[int]int{}
			}
			left[g]++
		}
		for _, b := range p.Movers[i].Budgets {
			if used == nil {
				used = map[int]int{}
			}
			if used[b]++; used[b] > p.Budgets[b] {
				return false
			}
		}
	}
	for g, n := range left {
		if x := &p.Gangs[g-1]; n > x.Most || n < x.Most && x.Whole {
			return false
		}
	}
	return true
}

// Move is a pod that moves, and its new place.
type Move struct {
	Mover int // index
	To    whatif.Placement
}

// Plan is what to move, and where everything goes then.
type Plan struct {
	// Moves are in the order in which the pods get their new places.
	Moves []Move
	// Placed has the places of Problem.Pods.
	Placed []whatif.Placement
	// Order has the places of both in the order in which the pods get them.
	Order []whatif.Placement
	Cost  Cost
	// Forced: the scheduler, which takes the pods in this order and each with the best node at that moment, would not
	// place all of them. They have places only if they go to the nodes of the plan.
	Forced bool
	// After are the nodes with all pods in their places.
	After []whatif.Node
}

// Result is the result of [Find].
type Result struct {
	// Plan is nil if none was found. Without any moves nothing is in the way.
	Plan *Plan
	// Cheapest: no other set costs less. Without a plan: there is none.
	Cheapest bool
	// Spent: the search reached its bound, or could not find out whether some pod gets devices on some node.
	Spent bool
	// Now is what becomes of the pods if only those move that have to; its Refusals are why the first pod without
	// a place has none, and Without is that pod.
	Now     whatif.GangOutcome
	Without state.PodID
	// Beyond: more pods have to move than Most, or than budgets allow. Have is how many have to.
	Beyond bool
	Have   int
}
