package sched

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/overlay"
	"github.com/tenon-numa/tenon/core/printable"
)

// Filter refuses nodes whose kubelet would refuse the pod. PreFilter has already computed nearly all nodes that fit.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, ok := p.state(cs)
	if !ok {
		return nil
	}
	name := info.Node().Name
	slot := s.slot(info, name)
	if slot >= 0 && s.fits != nil && s.fits.In(slot) && len(s.overlay) == 0 && s.backoff == nil && !p.choosy() {
		return s.filtered(name, nil, nil)
	}
	status := p.judged(s, name, slot)
	if o := s.overlay[name]; status.IsSuccess() || o != nil && o.Removes() {
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

// choosy reports whether the profile's arguments keep pods from nodes where they fit.
func (p *Plugin) choosy() bool {
	return p.args.CoarseNodes == config.Refuse || p.args.SilentNodes == config.Refuse ||
		p.args.InexactNodes == config.Refuse || p.args.KeepRestartable
}

// judged is Filter for a node in a slot, -1 if the ledger does not have the node.
func (p *Plugin) judged(s *state, name string, slot int) *fwk.Status {
	n, _ := s.snap.At(slot)
	o := s.overlay[name]
	if o != nil {
		n = o.Base
	}
	if !p.knows(n) {
		return s.filtered(name, nil, p.unknown(s, n, name))
	}
	if p.shuns(n) {
		return s.filtered(name, nil, fwk.NewStatus(fwk.Unschedulable, "node's agent is silent: a report is overdue"))
	}
	if r := p.refuses(s, n, o, slot); r != nil {
		return s.filtered(name, r.Reasons, refused(r))
	}
	if status := p.guards(s, n); status != nil {
		return s.filtered(name, nil, status)
	}
	if o != nil && !o.Spares(s.pod) {
		return s.filtered(
			name,
			nil,
			fwk.NewStatus(fwk.Unschedulable, "pods that are nominated to the node would lose their place"),
		)
	}
	if at, in := s.backoff[name]; in && at == n.News {
		return s.filtered(
			name,
			nil,
			fwk.NewStatus(fwk.Unschedulable, "node has not reported pods that it must admit before this one"),
		)
	}
	return s.filtered(name, nil, nil)
}

// refuses returns why the pod does not fit on a node, nil if it does. Results for hypothetical nodes are not cached.
func (p *Plugin) refuses(s *state, n *ledger.Node, o *overlay.Node, slot int) *answers.Refusal {
	switch {
	case o != nil:
		_, r := p.compute(s, n)
		return r
	case s.fits != nil && s.fits.In(slot):
		return nil
	}
	_, r := p.answer(s, slot)
	return r
}

// unknown decides on a node that the ledger does not have, or has only a NodeResourceTopology of.
func (p *Plugin) unknown(s *state, n *ledger.Node, node string) *fwk.Status {
	if n != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node has a NodeResourceTopology and no layout")
	}
	if p.letsUnknown(s) {
		return nil
	}
	if why := p.Feed.Problem(node); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node layout is refused: "+printable.Text(why))
	}
	if why := p.Feed.TopologyProblem(node); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "what the node reports is refused: "+printable.Text(why))
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node has no layout")
}
