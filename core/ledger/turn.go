package ledger

import (
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file decides when a reserved pod may be bound.

// Wait is why a reserved pod may not be bound yet.
type Wait struct {
	Why state.WaitReason
	// Changed is closed when the answer may have changed.
	Changed <-chan struct{}
	// Node is the name of the node where the pod waits.
	Node string
}

// Turn decides whether a reserved pod may be bound now; created is its creation time in seconds of the API server's
// clock. If it has to wait, Turn returns why. Otherwise Turn predicts once more, and v is the result. If v fits, the
// pod had its turn and may be bound. If the pod no longer fits, or would get what its demand does not allow, it loses
// its booking and v is the refusal. Turn returns an error for a pod that is not booked, or whose node has no layout.
func (b *Book) Turn(uid string, created int64) (v place.Verdict, wait *Wait, err error) {
	a := b.accountOf(uid)
	defer b.close(a)
	if a == nil || a.base == nil || a.find(uid) == nil {
		return v, nil, fmt.Errorf("pod %s is not reserved on any node", uid)
	}
	f := a.find(uid)
	var passed []*assumedPod
	first := f.turned == 0
	if first {
		f.created, f.asked = created, true
		v, why := a.ask(f)
		if why != "" {
			return place.Verdict{}, &Wait{why, a.nextChange(), a.name}, nil
		}
		if !v.Fits() {
			b.cancel(a, uid)
			return v, nil, nil
		}
		passed = b.take(a, f)
	}
	v = granted(b.snap.Load().Node(a.name), f)
	if other := b.apartFrom(a, f); other != "" && first {
		v = refusedElsewhere(other)
	}
	if !v.Fits() {
		b.decline(a, uid)
		return v, nil, nil
	}
	for _, g := range passed {
		g.passes++
	}
	return v, nil, nil
}

// ask returns what a waiting pod has to wait for, or the verdict on it.
func (a *account) ask(f *assumedPod) (v place.Verdict, why state.WaitReason) {
	if why := a.blocked(f); why != "" {
		return v, why
	}
	n := a.withoutWaiting()
	if a.lostWithout(f, n) {
		n.Promised = nil
	}
	if f.decision != nil {
		v = f.placeDecided(n)
	} else if v = n.Place(f.pod, place.Demand{}); !v.Fits() && mayFitLater(n, f.pod) || f.mayKeepLater(n) {
		return place.Verdict{}, state.WaitReport
	}
	return v, ""
}

// take gives a pod its turn. It returns the pods that it passes.
func (b *Book) take(a *account, f *assumedPod) (passed []*assumedPod) {
	if f.decision == nil {
		passed = a.ahead(f)
	}
	f.turned, f.uncertain = a.moment(), f.uncertain || a.drawsAlone(f)
	a.sort()
	b.renew(a)
	return passed
}

// Ahead returns the assumed pods that come before a pod on its node, in order. It returns nil if the pod is not
// booked.
func (b *Book) Ahead(uid string) (out []state.PodID) {
	a := b.accountOf(uid)
	if a == nil {
		return nil
	}
	defer b.close(a)
	for _, f := range a.assumed {
		if f.id.UID == uid {
			break
		}
		out = append(out, f.id)
	}
	return out
}

// blocked returns what the pod me must wait for, or "". Unless me has a decision or the node is overrun, it also sets
// me.after, which is valid only if me need not wait. Pods that had their turn before that moment are admitted before
// me.
func (a *account) blocked(me *assumedPod) state.WaitReason {
	switch {
	case me.decision != nil:
		return ""
	case a.overrun():
		return state.WaitCrowd
	}
	differ := false // a pod of another shape had its turn, and the order between it and me is open
	me.after = a.now + 1
	for _, f := range a.assumed {
		if f == me {
			break
		}
		switch {
		case f.turned == 0: // waits, too; see ahead
		case f.acked != 0 && f.unsureDevices(), f.acked == 0 && a.noticeable(f):
			return state.WaitDevices
		case f.acked != 0: // known to be admitted before me, with certain holdings
		case !a.estimated() && f.precedes(me): // certainly admitted before me
		case f.shape == me.shape && (f.demand != me.demand || f.kept != me.kept):
			return state.WaitOrder // they may exchange what they get, and one of them does not allow that
		case f.shape != me.shape:
			differ, me.after = true, min(me.after, f.turned)
		}
	}
	switch {
	case len(a.ahead(me)) > 0 && !a.mayPass(me):
		return state.WaitTurn
	case differ && !a.inAnyOrder(me):
		return state.WaitOrder
	}
	return ""
}

// ahead returns the pods that were reserved before me and wait for their turns.
func (a *account) ahead(me *assumedPod) []*assumedPod {
	waiting := a.assumed[a.turnedCount():]
	return waiting[:max(0, slices.Index(waiting, me))]
}

// maxTogether bounds the states that a node may get because pods of this scheduler are bound together: every later
// pod has to fit in all of them.
const maxTogether = 16

// inAnyOrder reports whether a pod may be bound beside others that had their turn. The node must admit all of them in
// any order, and the orders must lead to few states, with certain devices in each, and with room for the pod's mates
// and for promised pods.
func (a *account) inAnyOrder(me *assumedPod) bool {
	if a.estimated() {
		return false // amounts do not show the order
	}
	lost := len(a.promised) > 0 && a.lostWithout(me, a.withoutWaiting())
	return a.asIfTurned(me, func() bool {
		s := a.newSearch()
		s.willing = true
		if !a.search(&s) || s.refuses || len(s.found) > maxTogether {
			return false
		}
		return !slices.ContainsFunc(s.found, func(w *nodeState) bool {
			return slices.ContainsFunc(w.got, unsureDevices) || !a.meetsDemands(w, me) || !a.leavesRoom(w, me) ||
				!lost && !a.keepsPromises(w)
		})
	})
}

// lostWithout reports whether promised room was lost already, and not to the pod f, which waits for its turn. n is the
// node without the pods that wait.
func (a *account) lostWithout(f *assumedPod, n *state.Node) bool { return f.entitled || !n.Keeps() }

// leavesRoom reports whether the mates of a pod that wait for their turns fit in a state, in the order of the pods that
// wait.
func (a *account) leavesRoom(w *nodeState, me *assumedPod) bool {
	if len(me.mates) == 0 {
		return true
	}
	for i, f := range a.assumed {
		if f.turned != 0 {
			continue
		}
		if v := f.place(w.usage); v.Fits() {
			w = w.with(i, v.Holdings)
		} else if slices.Contains(me.mates, f) {
			return false
		}
		if slices.Contains(me.mates, f) && f.demand.Relates() && !a.meetsRelation(w, i) {
			return false
		}
	}
	return true
}

// meetsDemands reports whether what the pods before me get in a state satisfies their demands, and all pods keep where
// they have to be. For the demand of me, see granted.
func (a *account) meetsDemands(w *nodeState, me *assumedPod) bool {
	for i, f := range a.assumed[:a.turnedCount()] {
		if len(w.got[i]) > 0 && !f.keeps(w.base.Machine, w.got[i]) {
			return false
		}
		if f == me || f.demand == (place.Demand{}) || len(w.got[i]) == 0 {
			continue
		}
		if !place.Judge(w.usage, f.pod, place.Verdict{Holdings: w.got[i]}, f.demand).Fits() || !a.meetsRelation(w, i) {
			return false
		}
	}
	return true
}

// mayFitLater reports whether a pod that the node refuses may still fit: it fits in one of the states, and the node's
// next report will show which state is real. It is false for refused shapes and crowded nodes, which may remain so
// for long.
func mayFitLater(n *state.Node, p *place.Pod) bool {
	_, refused := n.Refused[p.Shape()]
	return !refused && !n.Crowds(p) && n.Might(p, place.Demand{})
}

// granted returns the verdict for a pod that had its turn: its holdings in the first state, or a refusal if its
// holdings in some state do not satisfy its demand, or are not where they have to be.
func granted(n *state.Node, f *assumedPod) place.Verdict {
	for _, other := range n.Others {
		e, there := other.Entry(f.id.UID)
		if !there {
			continue // it holds nothing in that state
		}
		if w := judge(other, f, e.Holdings); !w.Fits() {
			return w
		}
	}
	return judge(n, f, f.holdings())
}
