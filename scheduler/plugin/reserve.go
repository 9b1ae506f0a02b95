package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/scheduler/arrange"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// Reserve books what the pod will hold. It computes the verdict again under the ledger's lock, because the node may
// have changed since Filter.
func (p *Plugin) Reserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s, ok := read(cs)
	if ok && s.supposed != nil {
		return s.supposed.reserve(p, cs, s, pod, node)
	}
	if ok {
		s.OnTrial = fwk.OnTrial(cs)
		p.recordLeftOut(ctx, cs, pod, s)
	}
	return p.reserve(cs, pod, node, func() *fwk.Status { return p.book(cs, s, pod, node) })
}

// book books what the pod will hold. s is nil for a pod that no kubelet aligns.
func (p *Plugin) book(cs fwk.CycleState, s *podState, pod *v1.Pod, node string) *fwk.Status {
	if s == nil {
		p.joinGang(cs, pod, node, false)
		arrange.Placed(cs, string(pod.UID), nil)
		return nil
	}
	on := topo.Mask(0)
	n := p.Book.Snapshot().Node(node)
	if n != nil {
		if !p.guard.Knows(n) {
			return p.recordReserve(s, node, place.Verdict{}, barredStatus(guard.OnlyEstimated, n))
		}
		on = onNUMAs(n.Machine, steer.Chosen(cs, node))
	}
	v, known := p.Book.ReserveOn(node, kube.ID(pod), s.pod, s.demand, on)
	if !known || !v.Fits() {
		p.retry(pod)
	}
	if !known {
		return p.recordReserve(s, node, v, p.distrustStatus(s, nil, guard.NotKnown, node))
	}
	if !v.Fits() {
		return p.recordReserve(s, node, v, p.refusal(s.pod, v))
	}
	s.bare = len(v.Holdings) == 0
	p.waiting.Remove(string(pod.UID))
	p.joinGang(cs, pod, node, !s.bare)
	arrange.Placed(cs, string(pod.UID), func() int64 { return p.costAt(s, n, v) })
	return p.recordReserve(s, node, v, nil)
}

// costAt returns what the place of a pod cost on a node as it was before, by the strategy of the profile: the places of
// all pods of a group are compared, whatever strategies the pods name. n is nil if the ledger had no such node.
func (p *Plugin) costAt(s *podState, n *state.Node, v place.Verdict) int64 {
	// The verdict may be about a machine that the node has reported since.
	if n == nil {
		return p.strategy.Unknown()
	}
	if now := p.Book.Snapshot().Node(n.Name); now == nil || now.Machine != n.Machine {
		return p.strategy.Unknown()
	}
	strategy := p.strategy
	strategy.Mix = s.strategy.Mix
	return strategy.Cost(n.Usage, s.pod, v, n.Quality == state.Estimated) + strategy.Wait(n.Waits(s.shape))
}

// retry puts a pod that Reserve refused back into the queue. Other nodes fit as well, and no event will announce
// that.
func (p *Plugin) retry(pod *v1.Pod) {
	switch {
	case p.waiting != nil && !p.alone:
		p.waiting.Reconsider(string(pod.UID))
	case p.handle != nil:
		p.handle.Activate(p.logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
}

// Unreserve ends the booking of a pod that could not be bound, once it is certain that it is not bound.
func (p *Plugin) Unreserve(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	s, ok := read(cs)
	if ok && s.supposed != nil {
		s.supposed.unreserve(s.uid, node)
		return
	}
	p.gangs.Lost(string(pod.UID))
	if p.usedIn(cs) != nil {
		p.promises.GiveBack(string(pod.UID))
		p.flights.End(string(pod.UID))
	}
	if !ok {
		return
	}
	if s.OnTrial = fwk.OnTrial(cs); s.OnTrial {
		p.Book.Withdraw(s.uid)
	} else {
		p.turns.Failed(p.Book, pod, node)
	}
	s.Released(node)
}
