package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// PreScore drops pods that Filter did not look at.
func (p *Plugin) PreScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if _, ok := read(cs); !ok {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// The raw score is a cost: lower is better. One numa more costs more than any devices left short of
// CPUs, these more than any distance, a distance more than any waste. A node that is known coarsely costs
// one numa more than the pod will use there: of nodes that give it as many numas, an exact one is taken,
// and numas are not spent for it. A node of which nothing is known costs more than all others.
const (
	costNUMA     = 1 << 26
	costDevice   = 1 << 18 // per 1/64 of a device for every CPU left beside it, up to maxDevice
	perDevice    = 64
	maxDevice    = 1<<8 - 1
	costDistance = 1 << 10 // per unit of mean distance, up to maxDistance
	maxDistance  = 1<<8 - 1
	maxFree      = costDistance - 1
	costCoarse   = costNUMA
	costUnknown  = (topo.MaxNUMAs+2)*costNUMA + costCoarse // above a node that pins nothing
)

// Score costs the numas that the pod will really use: how many; how few CPUs they will have left for
// each free device that the pod has no use for, since others want devices together with CPUs; how far
// they are from each other; and how many of their CPUs stay free, so that whole numas are kept for those
// who need them.
func (p *Plugin) Score(_ context.Context, cs fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, ok := read(cs)
	if !ok {
		return 0, nil
	}
	name := info.Node().Name
	n := s.node(name)
	if !p.knows(n) {
		return s.costs(name, costUnknown), nil
	}
	return s.costs(name, cost(n, s.pod, p.verdict(s, n))), nil
}

func cost(n *ledger.Node, pod *place.Pod, v place.Verdict) int64 {
	if n.Quality == ledger.Coarse {
		return costCoarse + placed(n, pod, v)
	}
	return placed(n, pod, v)
}

// placed is what it costs to have the pod where it will be on a node.
func placed(n *ledger.Node, pod *place.Pod, v place.Verdict) int64 {
	used := v.NUMAs(n.Machine)
	if used == 0 {
		// The node pins nothing: the pod may run anywhere on it, which is worse than any numa of its own.
		return int64(len(n.Machine.NUMAs())+1) * costNUMA
	}
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
	for _, h := range v.Holdings {
		free -= int64(h.CPUs.Len())
	}
	free = max(0, free) // CPUs that an init container leaves to others are held twice
	mean := distance / max(1, pairs)
	return int64(used.Len())*costNUMA + min(idle(n, pod, used)*perDevice/(free+1), maxDevice)*costDevice +
		min(mean, maxDistance)*costDistance + min(free, maxFree)
}

// idle counts the free devices on the numas that the pod does not ask for.
func idle(n *ledger.Node, pod *place.Pod, used topo.Mask) (count int64) {
	for _, r := range n.Machine.Resources() {
		if wants(pod, r.Name) {
			continue
		}
		for _, d := range n.Usage.FreeDevices(r.Name) {
			if d.NUMAs&used != 0 {
				count++
			}
		}
	}
	return count
}

func wants(pod *place.Pod, resource string) bool {
	for _, c := range pod.Containers {
		for _, d := range c.Devices {
			if d.Resource == resource {
				return true
			}
		}
	}
	return false
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
