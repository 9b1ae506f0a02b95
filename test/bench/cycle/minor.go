package cycle

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// This file has the calls of kube-scheduler that differ between releases, for Kubernetes 1.37. enqueue adds a pod to
// the scheduling queue, next takes the first pod from it, and choose filters and scores nodes for that pod.

func enqueue(ctx context.Context, s *scheduler.Scheduler, pod *v1.Pod) {
	s.SchedulingQueue.Add(ctx, pod)
}

func choose(ctx context.Context, s *scheduler.Scheduler, fw framework.Framework, state fwk.CycleState,
	info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	if err := snapshot(s, fw, klog.FromContext(ctx)); err != nil {
		return scheduler.ScheduleResult{}, err
	}
	return s.SchedulePod(ctx, fw, state, info)
}

func next(s *scheduler.Scheduler, log klog.Logger) (*framework.QueuedPodInfo, error) {
	entity, err := s.NextEntity(log)
	if err != nil {
		return nil, err
	}
	info, ok := entity.(*framework.QueuedPodInfo)
	if !ok {
		return nil, fmt.Errorf("a %s is first", entity.Type())
	}
	return info, nil
}
