//go:build !upto1.35

package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	upstream "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/fwk"
)

// PreBindPreFlight implements [fwk.PreBindPlugin]; see preFlight. Other plugins may prepare the binding meanwhile.
func (p *Plugin) PreBindPreFlight(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) (
	*upstream.PreBindPreFlightResult, *fwk.Status) {
	if status := p.preFlight(cs, pod, node); status != nil {
		return nil, status
	}
	return &upstream.PreBindPreFlightResult{AllowParallel: true}, nil
}
