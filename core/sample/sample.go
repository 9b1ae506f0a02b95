// Package sample decides for which nodes a scheduler is asked, of those where a pod fits: naming nodes saves filtering
// others, and naming a sample of many saves filtering and scoring them.
//
// Invariant: a decision depends on numbers of nodes and on known costs only, and costs what it saves at most. The
// package has no rules about single nodes; the caller leaves out those that may not be named.
package sample

import (
	"iter"
	"slices"
)

const (
	// Size is how many nodes a sample names: of so many, kube-scheduler scores 100, as many as in a small cluster.
	Size = 200
	// Proven is how many of a sample pass all filters before it is named; if a single one does not, others may refuse
	// many, and all nodes are asked.
	Proven = 8
	// proving is what that costs.
	proving = 400
)

// Costs of naming a node, filtering it and scoring it in kube-scheduler, relative to each other.
const (
	naming  = 2
	asking  = 5
	scoring = 5
)

// Enough returns how many nodes that fit kube-scheduler looks for among so many. percent is percentageOfNodesToScore;
// 0 is the rule in its documentation.
func Enough(nodes, percent int) int {
	if percent == 0 {
		percent = max(5, 50-nodes/125)
	}
	return min(nodes, max(100, nodes*percent/100))
}

// NamesAll reports whether naming all nodes that fit costs less than filtering all until enough are found.
func NamesAll(fit, all, percent int) bool { return named(fit, percent) < found(fit, all, percent) }

// NamesSome reports whether a sample costs less than all nodes that fit, named or not.
func NamesSome(fit, all, percent int) bool {
	return fit >= Size && named(Size, percent)+proving < min(named(fit, percent), found(fit, all, percent))
}

// named is the cost of naming nodes that fit, and of filtering and scoring as many of them as kube-scheduler would.
func named(fit, percent int) int { return naming*fit + (asking+scoring)*Enough(fit, percent) }

// found is the cost of finding enough nodes among all if so many fit.
func found(fit, all, percent int) int {
	n := min(fit, Enough(all, percent))
	return asking*min(all, n*all/max(1, fit)) + scoring*n
}

// Of returns the slots of a sample: those of least known cost, at most half of it, and as many others in turn as there
// is room for. from yields the slots of nodes that fit from one slot on, in ascending order, and next is the slot at
// which the turn begins. after is the one for the next sample.
func Of(costs iter.Seq2[int, int64], from func(slot int) iter.Seq[int], next int) (slots []int, after int) {
	slots = slices.Grow(cheapest(costs, Size/2), Size)
	in := make(map[int]bool, Size)
	for _, slot := range slots {
		in[slot] = true
	}
	for _, begin := range [...]int{next, 0} {
		for slot := range from(begin) {
			if len(slots) == Size {
				return slots, slot
			}
			if !in[slot] {
				in[slot] = true
				slots = append(slots, slot)
			}
		}
	}
	return slots, next
}

// cheapest returns the slots of least cost, at most so many, unordered.
func cheapest(costs iter.Seq2[int, int64], most int) []int {
	type known struct {
		cost int64
		slot int
	}
	least := make([]known, 0, most) // a heap, the dearest first
	sift := func(i int) {
		for {
			kid := 2*i + 1
			if kid+1 < len(least) && least[kid+1].cost > least[kid].cost {
				kid++
			}
			if kid >= len(least) || least[kid].cost <= least[i].cost {
				return
			}
			least[i], least[kid] = least[kid], least[i]
			i = kid
		}
	}
	for slot, cost := range costs {
		switch {
		case len(least) < most:
			if least = append(least, known{cost, slot}); len(least) == most {
				for i := most / 2; i >= 0; i-- {
					sift(i)
				}
			}
		case cost < least[0].cost:
			least[0] = known{cost, slot}
			sift(0)
		}
	}
	out := make([]int, len(least))
	for i, k := range least {
		out[i] = k.slot
	}
	return out
}
