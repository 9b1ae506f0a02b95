package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/overlay"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// Filter refuses nodes whose kubelet would refuse the pod. For most pods, PreFilter has already computed the nodes
// where the pod fits.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	s, ok := p.state(cs)
	name := info.Node().Name
	if p.promises.Any() {
		if status := p.filterAmounts(cs, pod, info); status != nil {
			if !ok {
				return status
			}
			return s.recordFilter(name, nil, status)
		}
	}
	if !ok {
		return nil
	}
	slot := s.slot(info, name)
	if s.together == "" && slot >= 0 && s.fits != nil && s.fits.In(slot) && len(s.overlay) == 0 && s.backoff == nil &&
		!p.guard.Picky() {
		return s.recordFilter(name, nil, nil)
	}
	status := p.judge(s, name, slot)
	if status.IsSuccess() {
		return status
	}
	if o := s.overlay[name]; o != nil && o.Removes() || s.supposed != nil {
		return status // in a trial of DefaultPreemption, an error would not make the pod be tried again
	}
	if n, _ := s.snap.At(slot); p.isBehind(s, n, info) {
		return fwk.AsStatus(
			fmt.Errorf("node %s: pods that were evicted have left, and the ledger has not released them yet", name),
		)
	}
	return status
}

// judge computes Filter's result for the node in a slot. The slot is -1 if the ledger does not have the node.
func (p *Plugin) judge(s *podState, name string, slot int) *fwk.Status {
	n, _ := s.snap.At(slot)
	o := s.overlay[name]
	if o != nil {
		n = o.Base
	}
	if why := p.guard.Distrusts(n); why != 0 {
		return s.recordFilter(name, nil, p.distrustStatus(s, n, why, name))
	}
	if s.elsewhere(name) {
		r := place.Elsewhere(s.together)
		return s.recordFilter(name, []place.Reason{r}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.text(s.pod, r)))
	}
	if r := p.refuses(s, n, o, slot); r != nil {
		return s.recordFilter(name, r.Reasons, refusedStatus(r))
	}
	if why := p.guard.Refuses(n, s.pod, s.demand); why != 0 {
		return s.recordFilter(name, nil, barredStatus(why, n))
	}
	if o != nil && !o.Spares(s.pod, s.demand) {
		return s.recordFilter(
			name,
			nil,
			fwk.NewStatus(fwk.Unschedulable, "pods that are nominated to the node would lose their place"),
		)
	}
	if news, timedOut := s.backoff[name]; timedOut && news == n.News {
		return s.recordFilter(
			name,
			nil,
			fwk.NewStatus(fwk.Unschedulable, "node has not reported pods that it must admit before this one"),
		)
	}
	return s.recordFilter(name, nil, nil)
}

// refuses returns why the pod does not fit on a node, or nil if it fits. o is the node's hypothetical change, or nil.
// Results for hypothetical nodes are not cached.
func (p *Plugin) refuses(s *podState, n *state.Node, o *overlay.Node, slot int) *answers.Refusal {
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

// barredStatus returns the status of a node that the guard bars. Where the guard lacks data about the node or
// distrusts its reports, the status shows that evictions do not help.
func barredStatus(why guard.Bar, n *state.Node) *fwk.Status {
	code := fwk.Unschedulable
	if why == guard.OnlyEstimated || why == guard.IsInexact {
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, report.Barred(why, n))
}

// distrustStatus returns the status of a node that the guard distrusts for the given reason. n is nil if the ledger
// does not have the node; then distrustStatus returns nil if the pod may go there nevertheless.
func (p *Plugin) distrustStatus(s *podState, n *state.Node, why guard.Bar, node string) *fwk.Status {
	if n != nil {
		return barredStatus(why, n)
	}
	if p.guard.LetsUnknown(s.demand) {
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
