//go:build !upto1.34

package steer

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Score prefers nodes with devices near the pod, and among them those that the wrapped plugin prefers.
func (p *Plugin) Score(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	return score(cs, info.Node().Name, func(cs fwk.CycleState) (int64, *fwk.Status) {
		return p.DynamicResources.Score(ctx, cs, pod, info)
	})
}
