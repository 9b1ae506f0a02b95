package cycle

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// This file is for Kubernetes 1.34.

func enqueue(ctx context.Context, s *scheduler.Scheduler, pod *v1.Pod) {
	s.SchedulingQueue.Add(klog.FromContext(ctx), pod)
}

// choose does not update the nodes: SchedulePod does so itself.
func choose(ctx context.Context, s *scheduler.Scheduler, fw framework.Framework, state fwk.CycleState,
	info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	return s.SchedulePod(ctx, fw, state, info.Pod)
}

func next(s *scheduler.Scheduler, log klog.Logger) (*framework.QueuedPodInfo, error) {
	return s.NextPod(log)
}
