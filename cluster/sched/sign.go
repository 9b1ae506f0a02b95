package sched

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SignPod lets the framework batch pods that no node's managers would align: nothing in this plugin
// tells two of them apart. For all others every placement changes what fits next, so they are not
// batched.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	s, status := translate(pod)
	if status != nil || !s.pod.Plain() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "placement changes what fits next")
	}
	return nil, nil
}
