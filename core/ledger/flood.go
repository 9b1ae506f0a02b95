package ledger

import (
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file bounds what is stored and computed for one node.
//
// Every user who may create pods can bind any number of them to a node that does not answer, and each of them may
// have thousands of containers. The ledger therefore bounds the work of predicting what such pods got. Beyond the
// bound the node is unsettled, so that it gets no pods until it has reported or enough of the pods are gone.

const (
	// maxEffort bounds the placements that are tried for one prediction of a node, in all its possible states
	// together. It counts their containers, since the cost of a placement grows with them. Placing so many takes some
	// 25 ms.
	maxEffort = 8 << 10
	// maxFollowed bounds the pods of one node that are followed: the assumed pods whose holdings are predicted.
	// maxContainers bounds their containers. A kubelet runs at most 110 pods by default.
	maxFollowed   = 256
	maxContainers = 16 << 10
)

// costOf returns the cost of placing the pod in the unit of maxEffort: the number of its containers, at least 1.
func costOf(p *place.Pod) int { return max(1, len(p.Containers)) }

// room reports whether one more assumed pod can be followed. Pods that this scheduler has reserved and not bound
// always can: each of them holds free resources of the node, so there are never too many.
func (a *account) room(f *assumedPod) bool {
	if f.turned == 0 {
		return true
	}
	if len(a.excess) > 0 || len(a.assumed) >= maxFollowed {
		return false
	}
	containers := f.cost
	for _, g := range a.assumed {
		containers += g.cost
	}
	return containers <= maxContainers
}

// dropExcess ends the booking of a pod that a report lists, if it is one of the pods that are not followed.
func (a *account) dropExcess(uid string) {
	if a.excess[uid] {
		delete(a.excess, uid)
		a.unassumed = append(a.unassumed, uid)
	}
}

// overrun reports whether there are too many assumed pods to predict what they got. Once markFlooded was called, the
// answer stays true until half of the pods are gone or the node has reported, so that further pods cost next to
// nothing. overrun clears a.flooded when half of them are gone.
func (a *account) overrun() bool {
	if a.flooded > 0 && a.turnedCount() <= a.flooded/2 {
		a.flooded = 0
	}
	return a.flooded > 0 || len(a.excess) > 0
}

// turnedCount returns the number of assumed pods that had their turn.
func (a *account) turnedCount() (n int) {
	for n < len(a.assumed) && a.assumed[n].turned != 0 {
		n++
	}
	return n
}

// markFlooded records that it takes too much work to compute what the assumed pods got.
func (a *account) markFlooded() { a.flooded = max(1, a.turnedCount()) }

// unfollowed returns the state of a node with too many assumed pods: its last report, unsettled. It also records for
// every pod that had its turn that it may hold something beyond its options.
func (a *account) unfollowed() *state.Node {
	for _, f := range a.assumed {
		if f.turned != 0 {
			f.options.more = true
		}
	}
	n := *a.base
	n.Unsettled, n.Others = true, nil
	n.Basis.Queue = state.Queue{Mixed: true, Pods: len(a.assumed) + len(a.excess)}
	n.Inexact = append(slices.Clone(n.Inexact), state.Inexact{Code: state.PodsUnreported, Message: fmt.Sprintf(
		"%d pods are bound to the node and not in its report, which is too many to predict what they got",
		a.turnedCount()+len(a.excess))})
	return &n
}
