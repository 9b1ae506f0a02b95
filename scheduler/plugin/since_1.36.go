//go:build !upto1.35

package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	upstream "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// PreBindPreFlight implements [fwk.PreBindPlugin]; see preFlight. PreBind does not run in parallel with other
// plugins: if one of them fails, kube-scheduler cancels the others in the middle of their work. DynamicResources then
// leaves a claim that keeps the pod waiting. Running alone makes nothing slower. Turns come in the same order, and
// plugins before this one work while earlier pods have their turns.
func (p *Plugin) PreBindPreFlight(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) (
	*upstream.PreBindPreFlightResult, *fwk.Status) {
	if status := p.preFlight(cs, pod, node); status != nil {
		return nil, status
	}
	return &upstream.PreBindPreFlightResult{}, nil
}
