package cycle

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// This file has the calls of kube-scheduler that differ between releases, for Kubernetes 1.34. enqueue adds a pod to
// the scheduling queue, next takes the first pod from it, and choose filters and scores nodes for that pod.

func enqueue(ctx context.Context, s *scheduler.Scheduler, pod *v1.Pod) {
	s.SchedulingQueue.Add(klog.FromContext(ctx), pod)
}

// choose takes no snapshot of the nodes, because SchedulePod of this release does so itself.
func choose(ctx context.Context, s *scheduler.Scheduler, fw framework.Framework, state fwk.CycleState,
	info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	return s.SchedulePod(ctx, fw, state, info.Pod)
}

func next(s *scheduler.Scheduler, log klog.Logger) (*framework.QueuedPodInfo, error) {
	return s.NextPod(log)
}
