//go:build !upto1.36

package plugin

import (
	"context"

	upstream "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

var _ upstream.PodGroupPostFilterPlugin = (*Plugin)(nil)

// PodGroupPostFilter evicts pods to make room for a gang that fits nowhere. If the plugin has no preemption of its own,
// it evicts none.
func (p *Plugin) PodGroupPostFilter(ctx context.Context, cs upstream.PodGroupCycleState, group upstream.PodGroupInfo,
	schedule upstream.PodGroupSchedulingFunc) (*upstream.PodGroupPostFilterResult, *fwk.Status) {
	if p.preemption == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.preemption.PodGroupPostFilter(ctx, cs, group, schedule)
}
