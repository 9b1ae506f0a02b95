package ledger

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file books pods that a scheduler is about to bind.

// Reserve computes the verdict for a pod under the node's lock. If the pod fits and will hold something, Reserve
// books that on the node. If the pod is booked on this node already, it keeps that booking, and v has the booked
// holdings. A booking on another node is cancelled first. If the node has no layout, Reserve books nothing and ok is
// false; a refusal in v has ok true.
func (b *Book) Reserve(node string, id state.PodID, p *place.Pod, d place.Demand) (v place.Verdict, ok bool) {
	return b.ReserveOn(node, id, p, d, 0)
}

// ReserveOn is Reserve for a pod that should be on the NUMA nodes of a mask; 0 is any. The mask has an effect only
// where the agent is the arbiter, since a kubelet cannot be asked for a place.
func (b *Book) ReserveOn(
	node string,
	id state.PodID,
	p *place.Pod,
	d place.Demand,
	on topo.Mask,
) (v place.Verdict, ok bool) {
	for {
		a := b.open(node)
		if a == nil {
			return place.Verdict{}, false
		}
		v, ok, again := b.reserve(a, id, p, d, on)
		b.close(a)
		if !again {
			return v, ok
		}
		b.cancelElsewhere(node, id.UID)
	}
}

// reserve is Reserve on an account. If the pod is booked on another node, it books nothing and again is set: the
// caller cancels that booking and calls again.
func (b *Book) reserve(
	a *account,
	id state.PodID,
	p *place.Pod,
	d place.Demand,
	on topo.Mask,
) (v place.Verdict, ok, again bool) {
	if a.base == nil {
		return v, false, false
	}
	if f := a.find(id.UID); f != nil {
		return place.Verdict{Holdings: f.holdings()}, true, false
	}
	if at, on := b.assumedNode(id.UID); on && at != a.name {
		return v, true, true
	}
	if other := b.elsewhere(a.name, d); other != "" {
		return refusedElsewhere(other), true, false
	}
	n := b.snap.Load().Node(a.name)
	if on != 0 && a.base.Rules.Arbiter == place.ByAgent {
		if v = n.On(on).Place(p, d); v.Fits() && !n.KeepsBeside(v) {
			v = n.Promised[0].Refusal()
		}
	} else {
		v = n.Place(p, d)
	}
	if len(v.Holdings) == 0 {
		return v, true, false
	}
	f := newAssumed(id, p)
	f.demand, f.options = d, choices{known: [][]place.Holding{v.Holdings}}
	if a.base.Rules.Arbiter == place.ByAgent {
		f.decision = decisionOf(v.Holdings)
	}
	if d.Relates() {
		b.relate(a, id.UID, state.RelationsOf(d))
	}
	if !b.addAssumed(a, f) {
		b.unrelate(a, id.UID)
		return v, true, true
	}
	return v, true, false
}
