package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// fewChanged bounds the expensive costs that PreScore computes. If there are more, Score computes them in parallel,
// on all CPUs.
const fewChanged = 32

// PreScore skips pods that PreFilter skipped, unless they prefer the nodes of their affinity group. For all other
// pods it computes costs that are not cached: the costs for which outlines are enough, and the other costs if there
// are at most fewChanged of them. In Score, this would cost more: Score runs on new goroutines, and the runtime would
// have to copy and grow their small stacks.
func (p *Plugin) PreScore(_ context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s, ok := p.state(cs)
	if !ok {
		return p.preScoreGroup(cs, pod, nodes)
	}
	if s.fits != nil && s.fits.Len() <= 2*len(nodes) && s.outlineAll() {
		return nil
	}
	changed := make([]int, 0, fewChanged)
	for _, info := range nodes {
		slot := s.slot(info, info.Node().Name)
		if slot < 0 || s.answers.Has(s.snap, slot) || s.outline(slot) {
			continue
		}
		if len(changed) == fewChanged {
			return nil
		}
		changed = append(changed, slot)
	}
	for _, slot := range changed {
		p.answer(s, slot)
	}
	return nil
}

// outlineAll computes and caches the costs of all nodes where the pod fits, as far as outlines are enough. It looks
// up no node by name. It returns false if some costs are still missing.
func (s *podState) outlineAll() (all bool) {
	all = true
	for slot := range s.fits.Slots() {
		all = (s.answers.Has(s.snap, slot) || s.outline(slot)) && all
	}
	return all
}

// outline computes and caches the cost of the pod on the node in a slot. It returns false if the outline is not
// enough for that.
func (s *podState) outline(slot int) bool {
	n, _ := s.snap.At(slot)
	cost, ok := s.outlineCost(n, slot)
	if ok {
		s.answers.Keep(s.snap, slot, cost)
	}
	return ok
}

// Score returns the cost of the node by the pod's strategy, where lower is better. For a pod that PreFilter skipped,
// it returns the number of groupState, where higher is better.
func (p *Plugin) Score(_ context.Context, cs fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, ok := p.state(cs)
	if !ok {
		return scoreGroup(cs, info.Node().Name), nil
	}
	name := info.Node().Name
	return s.recordCost(name, p.costOf(s, name, s.slot(info, name))), nil
}

// costOf returns the cost of the node in a slot; -1 if the ledger does not have the node.
func (p *Plugin) costOf(s *podState, name string, slot int) int64 {
	if o := s.overlay[name]; o != nil {
		return s.cost(o.Full, o.Full.Place(s.pod, s.demand))
	}
	if p.guard.Estimated || slot < 0 {
		if n, _ := s.snap.At(slot); !p.guard.Knows(n) {
			return s.strategy.Unknown()
		}
	}
	cost, refusal := p.answer(s, slot)
	if refusal != nil {
		// The profile scores with the plugin but does not filter with it, so that nodes which refuse the pod are scored,
		// too.
		n, _ := s.snap.At(slot)
		return s.cost(n, place.Verdict{})
	}
	return cost
}

// ScoreExtensions returns the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns costs, or the numbers of groupState, into scores.
func (p *Plugin) NormalizeScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	s, ok := read(cs)
	if !ok {
		normalizeGroup(scores)
		return nil
	}
	if len(scores) == 0 {
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
