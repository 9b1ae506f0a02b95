//go:build !upto1.35

package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	upstream "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// PreBindPreFlight implements [fwk.PreBindPlugin]; see preFlight. PreBind does not run beside other plugins, since
// kube-scheduler cancels them in the middle of their work where one fails: DynamicResources then leaves a claim that
// keeps the pod waiting. Nothing is slower for it: turns come in the same order, and plugins that run before this one
// work while pods ahead have the turn.
func (p *Plugin) PreBindPreFlight(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) (
	*upstream.PreBindPreFlightResult, *fwk.Status) {
	if status := p.preFlight(cs, pod, node); status != nil {
		return nil, status
	}
	return &upstream.PreBindPreFlightResult{}, nil
}
