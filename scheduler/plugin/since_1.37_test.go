//go:build !upto1.36

package plugin

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/sample"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/promise"
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

// A group is tried on the nodes that keep room for its pods. If a pod is not reserved there, the next attempt is about
// all nodes, and so are attempts on a part of the cluster.
func TestPodsOfGroupsGetTheRoomThatIsKeptForThem(t *testing.T) {
	pod := cpus("own", 4)
	pod.Annotations = map[string]string{apipod.ConsumeAnnotation: "r", apipod.ClassAnnotation: apipod.Class}
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("gang")}
	var nodes []*v1.Node
	for _, name := range []string{"m", "n"} {
		nodes = append(nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{
			Allocatable: podOf("", "cpu=8 memory=64Gi pods=10").Spec.Containers[0].Resources.Requests}})
	}
	p, snap := newPlugin(t, refuse), internalcache.NewSnapshot(nil, nodes)
	f, err := frameworkruntime.NewFramework(t.Context(), frameworkruntime.Registry{}, nil, viewOf(snap)...)
	if err != nil {
		t.Fatal(err)
	}
	p.handle, p.promises, p.amounts, p.alone = f, p.newKeeper(), inMemory(t, nodes[1]), false
	p.promises.Open()
	for _, n := range nodes {
		p.Feed.Layout(layout(t, n.Name, two, place.SingleNUMA, 1))
	}
	s, status := translate(pod)
	fits(t, status)
	x := promise.Place{Node: "n", Pod: promise.Pod{Pod: s.pod, Demand: s.demand}}
	if err := p.promises.Restore(promise.Request{Name: pod.Namespace + "/r"}, []promise.Place{x}); err != nil {
		t.Fatal(err)
	}
	all, err := snap.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	attempt := func(want int) *framework.CycleState {
		t.Helper()
		cs := framework.NewCycleState()
		cs.SetPodGroupSchedulingCycle(framework.NewCycleState())
		r, status := p.PreFilter(t.Context(), cs, pod, all)
		if fits(t, status); r.AllNodes() != (want == 0) || !r.AllNodes() && (len(r.NodeNames) != 1 || !r.NodeNames.Has("n")) {
			t.Errorf("these nodes are named: %+v, want %d", r, want)
		}
		return cs
	}
	attempt(1)
	if !p.narrowedInVain(pod) {
		t.Error("it is not tried again after an attempt that has not reserved it")
	}
	attempt(0)
	if p.narrowedInVain(pod) {
		t.Error("it is tried again after an attempt on all nodes")
	}
	cs := attempt(1)
	fits(t, p.Reserve(t.Context(), cs, pod, "n"))
	if p.narrowedInVain(pod) {
		t.Error("it is tried again although it was reserved")
	}
	p.Unreserve(t.Context(), cs, pod, "n")
	if err := snap.AssumePlacement(&upstream.Placement{Name: "rack", Nodes: all[:1]}); err != nil {
		t.Fatal(err)
	}
	attempt(0)
}
