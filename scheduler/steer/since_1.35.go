//go:build !upto1.34

package steer

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

var _ fwk.PreScorePlugin = (*Plugin)(nil)

// PreScore skips pods without claims: to all nodes, the wrapped plugin gives them the score 0.
func (p *Plugin) PreScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if read(cs) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score prefers nodes with devices near the pod, and among them those that the wrapped plugin prefers.
func (p *Plugin) Score(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	return score(cs, info.Node().Name, func(cs fwk.CycleState) (int64, *fwk.Status) {
		return p.DynamicResources.Score(ctx, cs, pod, info)
	})
}

// ScoreExtensions returns p.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// preference is how much of a score tells which nodes the wrapped plugin prefers, where nodes differ in whether devices
// are near the pod.
const preference = 20

// NormalizeScore normalizes scores as the wrapped plugin does. If devices are near the pod on some of the nodes only,
// these nodes get more than all others.
func (p *Plugin) NormalizeScore(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	list fwk.NodeScoreList,
) *fwk.Status {
	near, count := make([]bool, len(list)), 0
	for i := range list {
		if near[i] = list[i].Score >= bonus; near[i] {
			list[i].Score -= bonus
			count++
		}
	}
	status := p.DynamicResources.NormalizeScore(ctx, cs, pod, list)
	if !status.IsSuccess() || count == 0 || count == len(list) {
		return status
	}
	for i := range list {
		list[i].Score = list[i].Score * preference / fwk.MaxNodeScore
		if near[i] {
			list[i].Score += fwk.MaxNodeScore - preference
		}
	}
	return nil
}

// prefers returns how much the claims prefer the devices of an attempt. It is at most
// FirstAvailableDeviceRequestMaxSize for each request with a list.
func (p *Plugin) prefers(ctx context.Context, a *attempt, pod *v1.Pod, info fwk.NodeInfo) int64 {
	score, _ := p.trial.plugin.Score(ctx, a.state, pod, info)
	return score
}
