package sched

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/printable"
)

// Filter keeps the pod from nodes whose managers would refuse it. For nearly all nodes that take the pod,
// PreFilter knows that already.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, ok := p.state(cs)
	if !ok {
		return nil
	}
	name := info.Node().Name
	slot := s.slot(info, name)
	if slot >= 0 && s.fits != nil && s.fits.In(slot) && len(s.overlay) == 0 && s.backoff == nil && !p.choosy() {
		return s.answered(name, nil, nil)
	}
	status := p.judged(s, name, slot)
	if o := s.overlay[name]; status.IsSuccess() || o != nil && len(o.removed) > 0 {
		return status // of a trial of DefaultPreemption nothing follows
	}
	if n, _ := s.snap.At(slot); p.lags(s, n, info) {
		return fwk.AsStatus(
			fmt.Errorf("node %s: pods that were evicted have left, and the ledger has not released them yet", name),
		)
	}
	p.retries.refused(s, slot)
	return status
}

// choosy reports whether the profile keeps pods away from nodes that would take them.
func (p *Plugin) choosy() bool {
	return p.args.CoarseNodes == config.Refuse || p.args.SilentNodes == config.Refuse ||
		p.args.InexactNodes == config.Refuse || p.args.KeepRestartable
}

// judged is Filter of a node in a slot, -1 if the ledger does not know it.
func (p *Plugin) judged(s *state, name string, slot int) *fwk.Status {
	n, _ := s.snap.At(slot)
	o := s.overlay[name]
	if o != nil {
		n = o.base
	}
	if !p.knows(n) {
		return s.answered(name, nil, p.unknown(s, n, name))
	}
	if p.shuns(n) {
		return s.answered(name, nil, fwk.NewStatus(fwk.Unschedulable, "node's agent is silent: a report is overdue"))
	}
	if no := p.refuses(s, n, o, slot); no != nil {
		return s.answered(name, no.reasons, no.status())
	}
	if status := p.guards(s, n); status != nil {
		return s.answered(name, nil, status)
	}
	if o != nil && !o.spares(s.pod) {
		return s.answered(
			name,
			nil,
			fwk.NewStatus(fwk.Unschedulable, "pods that are nominated to the node would lose their place"),
		)
	}
	if at, in := s.backoff[name]; in && at == n.News {
		return s.answered(
			name,
			nil,
			fwk.NewStatus(fwk.Unschedulable, "node has not reported pods that it must admit before this one"),
		)
	}
	return s.answered(name, nil, nil)
}

// refuses says why a node cannot take the pod, nil if it can. What is not as it is, but as it would be, is nobody
// else's to know.
func (p *Plugin) refuses(s *state, n *ledger.Node, o *overlay, slot int) *no {
	switch {
	case o != nil:
		_, no := p.compute(s, n)
		return no
	case s.fits != nil && s.fits.In(slot):
		return nil
	}
	_, no := p.reply(s, slot)
	return no
}

// unknown decides on a node of which nothing is known, or too little.
func (p *Plugin) unknown(s *state, n *ledger.Node, node string) *fwk.Status {
	if n != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node has a NodeResourceTopology and no layout")
	}
	if p.lets(s) {
		return nil
	}
	if why := p.feed.Problem(node); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node layout is refused: "+printable.Text(why))
	}
	if why := p.feed.TopologyProblem(node); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "what the node reports is refused: "+printable.Text(why))
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node has no layout")
}
