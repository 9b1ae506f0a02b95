package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/candidates"
	"github.com/tenon-numa/tenon/core/ledger"
)

// This file connects the plugin with package candidates, which leaves nodes out of an attempt.

// narrow returns the nodes that kube-scheduler is to filter, or nil for all.
func (p *Plugin) narrow(ctx context.Context, cs fwk.CycleState, s *state, pod *v1.Pod,
	nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	if p.candidates == nil || s.fits == nil && !s.large() {
		return nil
	}
	a := &candidates.Attempt{Pod: pod, Again: func() fwk.CycleState { return again(cs, attempt{}) },
		Snap: s.snap, Nodes: s.nodes, Fits: s.fits, Answers: s.answers,
		Lets: func(n *ledger.Node) bool { return p.lets(s, n) }, Picky: s.backoff != nil || p.choosy(),
		Unknown: p.letsUnknown(s)}
	var names sets.Set[string]
	if s.large() {
		names = p.candidates.Few(ctx, a, nodes, len(s.pod.Containers), func(info fwk.NodeInfo) bool {
			name := info.Node().Name
			slot := s.slot(info, name)
			return slot >= 0 && p.judged(s, name, slot).IsSuccess()
		})
	} else {
		names = p.candidates.Names(ctx, a, len(nodes))
	}
	if names == nil {
		return nil
	}
	s.named = names
	return &fwk.PreFilterResult{NodeNames: names}
}

// lets reports whether Filter lets the pod on a node where it fits.
func (p *Plugin) lets(s *state, n *ledger.Node) bool {
	at, waited := s.backoff[n.Name]
	return p.knows(n) && !p.shuns(n) && !(waited && at == n.News) && p.guards(s, n) == nil
}

// again returns a copy of the state of a cycle in which the plugin leaves no node out, recorded in a.
func again(cs fwk.CycleState, a attempt) fwk.CycleState {
	cs = cs.Clone() // the plugins that come after this one shall find what they have left
	if s, ok := read(cs); ok {
		s.named, s.unnarrowed, s.attempt = nil, true, a
	}
	return cs
}

// leftOut records why the pod does not fit on the nodes that were left out, as far as records and logs have room.
func (p *Plugin) leftOut(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, s *state) {
	if s.named == nil || !s.noting() || s.large() {
		return
	}
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return // nothing depends on it
	}
	for _, info := range nodes {
		if !s.noting() {
			return
		}
		if !s.named.Has(info.Node().Name) {
			p.Filter(ctx, cs, pod, info)
		}
	}
}

// askAll filters the nodes that were left out, if any, and adds their results to m. It returns the state of an attempt
// that leaves no node out.
func (p *Plugin) askAll(ctx context.Context, cs fwk.CycleState, pod *v1.Pod,
	m fwk.NodeToStatusReader) (fwk.CycleState, error) {
	s, ok := read(cs)
	all, is := m.(*framework.NodeToStatus)
	if !ok || s.named == nil || !is {
		return cs, nil
	}
	cs = again(cs, s.attempt)
	fits, err := p.candidates.Complete(ctx, cs, pod, all)
	if fits {
		p.preemption.Retry(pod) // something has changed since, and no event announces it
	}
	return cs, err
}

// amend makes the diagnosis of an attempt what it would be if no node had been left out. If PostFilter did not reach
// this plugin, because an earlier plugin ended it, the nodes that were left out are filtered first. A rejection at
// Reserve or later concerns one node only: there no node was left out.
func (p *Plugin) amend(ctx context.Context, pod *v1.Pod, why *framework.FitError) (err error) {
	if p.candidates == nil {
		return nil
	}
	c, all := p.last.Load(), why.Diagnosis.NodeToStatus
	if c != nil && c.state.uid == string(pod.UID) && c.state.named != nil && all != nil &&
		len(all.AbsentNodesStatus().Reasons()) > 0 && !p.candidates.Completed(all) {
		_, err = p.askAll(ctx, c.cs, pod, all)
	}
	p.candidates.Amend(why)
	return err
}
