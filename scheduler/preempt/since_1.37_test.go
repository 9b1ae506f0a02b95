//go:build !upto1.36

package preempt

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// upstreamVictims returns what kube-scheduler's own preemption evicts from a node.
func (pre *Preemption) upstreamVictims(t *testing.T, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) []*v1.Pod {
	t.Helper()
	possible, err := pre.upstream.Evaluator.GetVictimsOnNode(t.Context(), info)
	if err != nil {
		t.Fatal(err)
	}
	out, _, _ := pre.upstream.SelectVictimsOnNode(t.Context(), cs, pod, info.Snapshot(), possible, nil)
	return out
}

// viewOf returns the options of a framework that sees a snapshot of the nodes.
func viewOf(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	}
}

// forQueue returns what a queue takes first.
func forQueue(ctx context.Context) context.Context { return ctx }
