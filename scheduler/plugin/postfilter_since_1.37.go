//go:build !upto1.36

package plugin

import (
	"context"
	"slices"

	upstream "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

var _ upstream.PodGroupPostFilterPlugin = (*Plugin)(nil)

// PodGroupPostFilter evicts pods to make room for a gang that fits nowhere. If the plugin has no preemption of its own,
// or if the gang is tried on more nodes next, it evicts none.
func (p *Plugin) PodGroupPostFilter(ctx context.Context, cs upstream.PodGroupCycleState, group upstream.PodGroupInfo,
	schedule upstream.PodGroupSchedulingFunc) (*upstream.PodGroupPostFilterResult, *fwk.Status) {
	if p.preemption == nil || slices.ContainsFunc(group.GetUnscheduledPods(), p.narrowedInVain) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.preemption.PodGroupPostFilter(ctx, cs, group, schedule)
}
