package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
)

// Filter keeps the pod from nodes whose managers would refuse it.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, ok := read(cs)
	if !ok {
		return nil
	}
	name := info.Node().Name
	n := s.base(name)
	if !p.knows(n) {
		return s.answered(name, nil, p.unknown(s, n, name))
	}
	if p.shuns(n) {
		return s.answered(name, nil, fwk.NewStatus(fwk.Unschedulable, "node's agent is silent: a report is overdue"))
	}
	v := p.verdict(s, n)
	if !v.Fits() {
		status := refusal(v)
		if p.never(s, n) {
			status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Reasons()...)
		}
		return s.answered(name, v.Reasons, status)
	}
	if o := s.overlay[name]; o != nil && !o.spares(s.pod) {
		return s.answered(name, nil, fwk.NewStatus(fwk.Unschedulable, "pods that are nominated to the node would lose their place"))
	}
	if p.vain.is(s.uid, name, n.News) {
		return s.answered(name, nil, fwk.NewStatus(fwk.Unschedulable, "node has not reported pods that it must admit before this one"))
	}
	return s.answered(name, nil, nil)
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
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node layout is refused: "+why)
	}
	if why := p.feed.TopologyProblem(node); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "what the node reports is refused: "+why)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node has no layout")
}
