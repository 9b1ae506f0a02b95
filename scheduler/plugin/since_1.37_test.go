//go:build !upto1.36

package plugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tenon-numa/tenon/core/sample"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// viewOf returns the options of a framework that sees a snapshot of the nodes.
func viewOf(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
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

// For a pod of a group, few nodes are asked while the group is tried on the whole cluster. Where it is tried on a part
// of the cluster, a sample of all nodes could miss that part.
func TestFewNodesAreAskedForPodsOfGroups(t *testing.T) {
	y := newYard(t, 500, 50)
	c := y.open(t, "tenon", shippedProfile(t))
	snap := c.f.SnapshotSharedLister().(*internalcache.Snapshot)
	named := func(placement *upstream.Placement) *fwk.PreFilterResult {
		if err := snap.AssumePlacement(placement); err != nil {
			t.Fatal(err)
		}
		defer snap.ForgetPlacement()
		cs, pod := framework.NewCycleState(), podOf("member", "cpu=4 memory=8Gi")
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("gang")}
		cs.SetPodGroupSchedulingCycle(framework.NewCycleState())
		result, status, _ := c.f.RunPreFilterPlugins(t.Context(), cs, pod)
		fits(t, status)
		return result
	}
	c.schedule(t, podOf("before", "cpu=4 memory=8Gi")) // updates the snapshot
	if r := named(nil); r.AllNodes() || len(r.NodeNames) > sample.Size {
		t.Error("on all nodes, no sample is named")
	}
	nodes, err := snap.List()
	if err != nil {
		t.Fatal(err)
	}
	if r := named(&upstream.Placement{Name: "rack", Nodes: nodes[:250]}); !r.AllNodes() {
		t.Errorf("on a part of the nodes, %d are named", len(r.NodeNames))
	}
}
