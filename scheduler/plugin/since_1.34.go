//go:build upto1.35

package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// PreBindPreFlight implements [fwk.PreBindPlugin]; see preFlight.
func (p *Plugin) PreBindPreFlight(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return p.preFlight(cs, pod, node)
}
