//go:build upto1.36 && !upto1.35

package plugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// viewOf returns the options of a framework that sees a snapshot of the nodes.
func viewOf(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	}
}

// choose chooses a node for a pod.
func (c *contender) choose(b testing.TB, cs fwk.CycleState, pod *v1.Pod) (scheduler.ScheduleResult, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return scheduler.ScheduleResult{}, err
	}
	return c.sched.SchedulePod(b.Context(), c.f, cs, &framework.QueuedPodInfo{PodInfo: info})
}

// forQueue returns what a queue takes first.
func forQueue(ctx context.Context) context.Context { return ctx }
