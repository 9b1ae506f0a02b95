package sched

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBindPreFlight skips pods that hold nothing of the node.
func (p *Plugin) PreBindPreFlight(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if _, ok := read(cs); !ok || !p.book.Booked(node, string(pod.UID)) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind waits for the pod's turn on its node, so that the node admits pods in the order in which they
// were predicted. A pod that no longer fits when its turn comes is scheduled anew.
func (p *Plugin) PreBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s, ok := read(cs)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.turnTimeout(),
		fmt.Errorf("no turn on node %s after %s: a pod before it was not reported as admitted", node, p.turnTimeout()))
	defer cancel()
	for {
		v, wait, err := p.book.Turn(string(pod.UID))
		if err != nil {
			return s.turned(node, v, fwk.AsStatus(err))
		}
		if wait == nil {
			if v = p.judge(s, node, v); !v.Fits() {
				return s.turned(node, v, refusal(v))
			}
			return s.turned(node, v, nil)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return s.turned(node, v, fwk.NewStatus(fwk.Unschedulable, context.Cause(ctx).Error()))
		}
	}
}
