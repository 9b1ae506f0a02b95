package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// PreScore drops pods that Filter did not look at.
func (p *Plugin) PreScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if _, ok := read(cs); !ok {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// The raw score is a cost: lower is better. One numa more costs more than any distance, a distance more
// than any waste.
const (
	costNUMA     = 1 << 20
	costDistance = 1 << 8 // per unit of mean distance, of which there are fewer than 2^12
	costUnknown  = 64 * costNUMA
)

// Score costs the numas that the pod will really use: how many, how far from each other, and how many of
// their CPUs stay free, so that whole numas are kept for those who need them.
func (p *Plugin) Score(_ context.Context, cs fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, ok := read(cs)
	if !ok {
		return 0, nil
	}
	n := s.node(info.Node().Name)
	if n == nil {
		return costUnknown, nil
	}
	return cost(n, p.verdict(s, n)), nil
}

func cost(n *ledger.Node, v place.Verdict) int64 {
	used := v.NUMAs(n.Machine)
	free, distance, pairs := int64(0), int64(0), int64(0)
	for _, i := range used.Positions() {
		numa := n.Machine.NUMAs()[i]
		free += int64(numa.CPUs.AndLen(n.Usage.FreeCPUs()))
		for _, j := range used.Positions() {
			if j < len(numa.Distances) {
				distance += int64(numa.Distances[j])
				pairs++
			}
		}
	}
	mean := min(distance/max(1, pairs), 1<<12-1)
	return int64(used.Len())*costNUMA + mean*costDistance + min(free, costDistance-1)
}

// ScoreExtensions returns the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns costs into scores: the cheapest node gets the most, the dearest none; nodes that
// cost the same all get the most.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if len(scores) == 0 {
		return nil
	}
	low, high := scores[0].Score, scores[0].Score
	for _, s := range scores {
		low, high = min(low, s.Score), max(high, s.Score)
	}
	for i := range scores {
		if high == low {
			scores[i].Score = fwk.MaxNodeScore
			continue
		}
		scores[i].Score = fwk.MaxNodeScore * (high - scores[i].Score) / (high - low)
	}
	return nil
}
