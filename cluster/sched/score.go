package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
)

// PreScore drops pods that Filter did not look at.
func (p *Plugin) PreScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if _, ok := read(cs); !ok {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score returns the cost of the node by the pod's strategy, lower being better.
func (p *Plugin) Score(_ context.Context, cs fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, ok := read(cs)
	if !ok {
		return 0, nil
	}
	name := info.Node().Name
	n := s.node(name)
	if !p.knows(n) {
		return s.costs(name, s.strategy.Unknown()), nil
	}
	return s.costs(name, s.strategy.Cost(n.Usage, s.pod, p.verdict(s, n), n.Quality == ledger.Coarse)), nil
}

// ScoreExtensions returns the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns costs into scores.
func (p *Plugin) NormalizeScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	s, ok := read(cs)
	if !ok || len(scores) == 0 {
		return nil
	}
	costs := make([]int64, len(scores))
	for i := range scores {
		costs[i] = scores[i].Score
	}
	s.strategy.Scores(costs)
	for i := range scores {
		scores[i].Score = costs[i]
	}
	return nil
}
