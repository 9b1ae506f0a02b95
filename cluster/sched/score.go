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
	low, high := scores[0].Score, scores[0].Score
	for _, x := range scores {
		low, high = min(low, x.Score), max(high, x.Score)
	}
	for i := range scores {
		scores[i].Score = s.strategy.Score(scores[i].Score, low, high)
	}
	return nil
}
