//go:build upto1.35

package plugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// viewOf returns the options of a framework that sees a snapshot of the nodes.
func viewOf(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	}
}

// choose chooses a node for a pod.
func (c *contender) choose(b testing.TB, cs fwk.CycleState, pod *v1.Pod) (scheduler.ScheduleResult, error) {
	return c.sched.SchedulePod(b.Context(), c.f, cs, pod)
}

// forQueue returns what a queue takes first.
func forQueue(ctx context.Context) klog.Logger { return klog.FromContext(ctx) }
