package state

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file decides whether a pod fits on a node, for all callers: Filter, Reserve, the turn, the index, preemption,
// explain and simulate.
//
// The rule: a pod fits if four conditions hold. It fits in every known state of the node. These are all states that
// the node may be in, or the pod holds nothing there. The node has refused no pod of this shape since its last
// report. The pods that are promised room there fit after it.

// Place returns what the node will do with a pod. A pod that fits gets the holdings of the first state, which is the
// likeliest one. A refusal has at least one reason.
func (n *Node) Place(p *place.Pod, d place.Demand) place.Verdict {
	var first, last place.Verdict
	answer := n.fit(p, d, func(one *Node) bool {
		last = one.placeHere(p, d)
		if one == n {
			first = last
		}
		return last.Fits()
	}, func() bool { return len(first.Holdings) > 0 })
	switch answer {
	case noRoomInOther:
		last.Reasons = append(last.Reasons, place.Reason{Code: place.Unsettled})
		return last
	case stateUnknown:
		return place.Verdict{Refusal: place.TopologyAffinityError, Reasons: []place.Reason{{Code: place.Unsettled}}}
	case shapeRefused:
		why := n.Refused[p.Shape()]
		return place.Verdict{Refusal: why, Reasons: []place.Reason{{Code: place.Refused, Resource: string(why)}}}
	case roomPromised:
		return n.Promised[0].Refusal()
	}
	return first
}

// On returns the node with all CPUs and memory outside the NUMA nodes of a mask held, in all its states, and without
// promises; see KeepsBeside.
func (n *Node) On(mask topo.Mask) *Node {
	out := *n
	out.Usage, out.Others, out.Promised = n.Usage.On(mask), nil, nil
	for _, other := range n.Others {
		out.Others = append(out.Others, other.On(mask))
	}
	return &out
}

// Fits reports whether Place returns a verdict that fits, for a pod without a demand. It costs much less.
func (n *Node) Fits(p *place.Pod) bool {
	return n.Accepts(p, place.Demand{}, func(one *Node) bool { return place.Fits(one.Usage, p) })
}

// Takes reports whether Place returns a verdict that fits. For a pod without a demand it costs as little as Fits.
func (n *Node) Takes(p *place.Pod, d place.Demand) bool {
	if !d.Binds() {
		return n.Fits(p)
	}
	return n.Place(p, d).Fits()
}

// FitsEmpty reports whether Fits would be true if no pod were on the node and the node had refused none. If FitsEmpty
// is false, no eviction makes room for the pod.
func (n *Node) FitsEmpty(p *place.Pod) bool { return n.emptied().Fits(p) }

// TakesEmpty is FitsEmpty for a pod with a demand.
func (n *Node) TakesEmpty(p *place.Pod, d place.Demand) bool { return n.emptied().Takes(p, d) }

// emptied returns the node without pods and refusals.
func (n *Node) emptied() *Node {
	return &Node{Name: n.Name, Machine: n.Machine, Rules: n.Rules, Quality: n.Quality, From: n.From, Usage: n.Empty()}
}

// Might reports whether the pod fits in at least one of the possible states. On an unsettled node it also tries the
// node without the pods that have uncertain holdings.
func (n *Node) Might(p *place.Pod, d place.Demand) bool {
	if n.placeHere(p, d).Fits() {
		return true
	}
	if gone := n.Basis.Uncertain; len(gone) > 0 && n.Without(gone...).placeHere(p, d).Fits() {
		return true
	}
	for _, other := range n.Others {
		if other.placeHere(p, d).Fits() {
			return true
		}
	}
	return false
}

// Accepts applies the rule to a pod, for callers with their own way to find out whether it fits in one state. It
// calls the function in for n first, then for n's other states, until the function returns false.
func (n *Node) Accepts(p *place.Pod, d place.Demand, in func(one *Node) bool) bool {
	return n.fit(p, d, in, nil) == accepted
}

// answer is accepted if a pod fits, and otherwise the condition of the rule that fails.
type answer int

const (
	accepted answer = iota
	noRoom
	noRoomInOther
	stateUnknown
	shapeRefused
	roomPromised
)

// fit applies the rule. The function in reports whether the pod fits in one state; fit calls it for n first, then for
// n's other states, until it returns false. The function holds reports whether the pod holds something in the first
// state; if holds is nil, fit computes it.
func (n *Node) fit(p *place.Pod, d place.Demand, in func(one *Node) bool, holds func() bool) answer {
	if !in(n) {
		return noRoom
	}
	for _, other := range n.Others {
		if !in(other) {
			return noRoomInOther
		}
	}
	if n.Unsettled || n.Crowds(p) {
		if holds == nil {
			holds = func() bool { return len(place.Place(n.Usage, p).Holdings) > 0 }
		}
		if holds() {
			return stateUnknown
		}
	}
	if len(n.Refused) > 0 {
		if _, refused := n.Refused[p.Shape()]; refused {
			return shapeRefused
		}
	}
	if len(n.Promised) > 0 && !n.keepsAfter(p, d) {
		return roomPromised
	}
	return accepted
}

// placeHere returns the verdict in this state alone, without regard to Others, Unsettled, Crowded and Refused.
func (n *Node) placeHere(p *place.Pod, d place.Demand) place.Verdict {
	room := n.roomFor(p, d)
	v := n.Judge("", p, place.Place(room, p), d)
	if room != n.Usage && !v.Fits() { // what is left for the pod may be little: the place that it would get has the reason
		return n.Judge("", p, place.Place(n.Usage, p), d)
	}
	return v
}

// Meets reports whether the pod would be admitted in this state alone, with its demand met.
func (n *Node) Meets(p *place.Pod, d place.Demand) bool { return n.placeHere(p, d).Fits() }

// Judge is [place.Judge] in this state alone, for a pod that the node may have already: self is its UID, or "". It also
// refuses a pod whose demand about other pods is not met, or that an estimated node would not enforce.
func (n *Node) Judge(self string, p *place.Pod, v place.Verdict, d place.Demand) place.Verdict {
	v = n.Relate(self, place.Judge(n.Usage, p, v, d), d)
	if v.Fits() && n.unenforced(p, d) {
		return place.Verdict{Refusal: place.TopologyAffinityError,
			Reasons: []place.Reason{d.Reason(place.Reason{Code: place.Counted})}}
	}
	return v
}
