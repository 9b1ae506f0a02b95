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
	// Proven is how many nodes of a sample have to pass all filters before the sample is named. If as many do not pass,
	// the filters may refuse most of the others, too, and kube-scheduler filters all nodes.
	Proven = 8
	// proving is the cost of these checks, in the unit of the costs below.
	proving = 400
)

// Relative costs of naming a node, filtering it and scoring it in kube-scheduler.
const (
	naming    = 2
	filtering = 5
	scoring   = 5
)

// Enough returns how many feasible nodes kube-scheduler looks for among this number of nodes. percent is
// percentageOfNodesToScore; 0 selects the rule in its documentation.
func Enough(nodes, percent int) int {
	if percent == 0 {
		percent = max(5, 50-nodes/125)
	}
	return min(nodes, max(100, nodes*percent/100))
}

// NamesAll reports whether naming all nodes that fit costs less than filtering all nodes until enough are found. The
// argument fit is the number of nodes that fit, all the number of all nodes.
func NamesAll(fit, all, percent int) bool {
	return costOfNaming(fit, percent) < costOfFiltering(fit, all, percent)
}

// NamesSome reports whether a sample costs less than all nodes that fit, whether those are named or not.
func NamesSome(fit, all, percent int) bool {
	return fit >= Size &&
		costOfNaming(Size, percent)+proving < min(costOfNaming(fit, percent), costOfFiltering(fit, all, percent))
}

// NamesFew reports whether naming these few nodes, which are all that have what a pod requests, costs less than
// filtering all nodes. few is their number, all the number of all nodes.
func NamesFew(few, all, percent int) bool {
	return few > 0 && costOfNaming(few, percent)+proving < costOfFiltering(few, all, percent)
}

// costOfNaming returns the cost of naming the nodes that fit, and of filtering and scoring as many of them as
// kube-scheduler would.
func costOfNaming(fit, percent int) int {
	return naming*fit + (filtering+scoring)*Enough(fit, percent)
}

// costOfFiltering returns the cost of filtering nodes until enough are found, and of scoring these. The arguments are
// as for NamesAll.
func costOfFiltering(fit, all, percent int) int {
	n := min(fit, Enough(all, percent))
	return filtering*min(all, n*all/max(1, fit)) + scoring*n
}

// Of returns the slots of a sample, fewer than Size if fewer nodes fit. At most half of them are the slots with the
// least known costs. The others follow in ascending order, from the slot next on, and then from slot 0 on. from(slot)
// yields the slots of nodes that fit, in ascending order, beginning with the argument. after is the argument next for
// the next sample, so that sooner or later each node is in a sample.
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

// cheapest returns the slots with the least costs, at most limit of them, unordered.
func cheapest(costs iter.Seq2[int, int64], limit int) []int {
	type entry struct {
		cost int64
		slot int
	}
	least := make([]entry, 0, limit) // a heap, highest cost first
	sift := func(i int) {
		for {
			child := 2*i + 1
			if child+1 < len(least) && least[child+1].cost > least[child].cost {
				child++
			}
			if child >= len(least) || least[child].cost <= least[i].cost {
				return
			}
			least[i], least[child] = least[child], least[i]
			i = child
		}
	}
	for slot, cost := range costs {
		switch {
		case len(least) < limit:
			// The slice becomes a heap when it is full.
			if least = append(least, entry{cost, slot}); len(least) == limit {
				for i := limit / 2; i >= 0; i-- {
					sift(i)
				}
			}
		case cost < least[0].cost:
			least[0] = entry{cost, slot}
			sift(0)
		}
	}
	out := make([]int, len(least))
	for i, k := range least {
		out[i] = k.slot
	}
	return out
}
