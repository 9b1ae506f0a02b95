// Package sample decides which nodes PreFilter names to kube-scheduler, among those where a pod fits. kube-scheduler
// filters only the nodes that are named, which saves work if the pod fits on few. If it fits on many, naming only a
// sample of them saves filtering and scoring the rest.
//
// Invariant: a decision depends only on numbers of nodes and on known costs, and never costs more than it saves. The
// package has no rules about single nodes; the caller leaves out nodes that must not be named.
package sample

import (
	"iter"
	"slices"
)

const (
	// Size is the number of nodes in a sample. Of 200 nodes, kube-scheduler scores 100, as many as in a small cluster.
	Size = 200
	// Proven is how many nodes of a sample have to pass all filters before it is named. If one does not, the filters may
	// refuse many others, too, and all nodes are asked.
	Proven = 8
	// proving is the cost of these checks, in the unit of the costs below.
	proving = 400
)

// Relative costs of naming a node, filtering it and scoring it in kube-scheduler.
const (
	naming  = 2
	asking  = 5
	scoring = 5
)

// Enough returns how many feasible nodes kube-scheduler looks for among so many nodes. percent is
// percentageOfNodesToScore; 0 selects the rule in its documentation.
func Enough(nodes, percent int) int {
	if percent == 0 {
		percent = max(5, 50-nodes/125)
	}
	return min(nodes, max(100, nodes*percent/100))
}

// NamesAll reports whether naming all nodes that fit costs less than filtering all nodes until enough are found. The
// argument fit is the number of nodes that fit, all the number of all nodes.
func NamesAll(fit, all, percent int) bool { return named(fit, percent) < found(fit, all, percent) }

// NamesSome reports whether a sample costs less than all nodes that fit, whether those are named or not.
func NamesSome(fit, all, percent int) bool {
	return fit >= Size && named(Size, percent)+proving < min(named(fit, percent), found(fit, all, percent))
}

// named is the cost of naming the nodes that fit, and of filtering and scoring as many of them as kube-scheduler would.
func named(fit, percent int) int { return naming*fit + (asking+scoring)*Enough(fit, percent) }

// found is the cost of filtering nodes until enough are found, and of scoring them. The arguments are as for
// NamesAll.
func found(fit, all, percent int) int {
	n := min(fit, Enough(all, percent))
	return asking*min(all, n*all/max(1, fit)) + scoring*n
}

// Of returns the slots of a sample. At most half of them are the slots with the least known costs; the others follow
// in ascending order, from the slot in next on, and then from slot 0 on. from(slot) yields the slots of nodes that
// fit, in ascending order, beginning with the argument. after is what to pass as next for the next sample, so that
// sooner or later each node is in a sample.
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

// cheapest returns the slots with the least costs, unordered; the argument most bounds their number.
func cheapest(costs iter.Seq2[int, int64], most int) []int {
	type known struct {
		cost int64
		slot int
	}
	least := make([]known, 0, most) // a heap, highest cost first
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
			// The list becomes a heap when it is full.
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
