//go:build !upto1.36

package preempt

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// unasked is a plugin that must not be asked anything.
type unasked struct {
	Plugin
	GroupPlugin
}

// waiting is a group that waits.
type waiting struct {
	upstream.PodGroupInfo
	group *schedulingv1beta1.PodGroup
	pods  []*v1.Pod
}

func (w waiting) GetPodGroup() *schedulingv1beta1.PodGroup { return w.group }

func (w waiting) GetUnscheduledPods() []*v1.Pod { return w.pods }

// groupless is a snapshot without PodGroups.
type groupless struct {
	upstream.MutableSnapshotSharedLister
}

func (groupless) PodGroups() upstream.PodGroupLister { return nil }

// known is a plugin that knows some nodes.
type known struct {
	Plugin
	GroupPlugin
	nodes map[string]*state.Node
}

func (k known) Node(name string) *state.Node { return k.nodes[name] }

// A gang that waits is tried again for nodes whose next report may change what fits, and for no others: each attempt is
// a search for victims in all of the cluster.
func TestAGangIsTriedAgainForNodesThatMayReport(t *testing.T) {
	a := &groupAttempt{info: waiting{}, group: &schedulingv1beta1.PodGroup{}, lister: &lister{
		MutableSnapshotSharedLister: groupless{}}, plugin: known{nodes: map[string]*state.Node{
		"settled": {Name: "settled"}, "silent": {Name: "silent", Silent: true},
		"unsettled": {Name: "unsettled", Unsettled: true}}}}
	a.group.Spec.Priority = new(int32(10))
	var nodes []fwk.NodeInfo
	for _, name := range []string{"settled", "silent", "unknown", "unsettled"} {
		info := framework.NewNodeInfo(cpus("p-"+name, 4), cpus("q-"+name, 4))
		info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		nodes = append(nodes, info)
	}
	units, _ := a.units(nodes)
	if len(units) != 2 || units[0].Pods[0].Node != 0 || units[1].Pods[0].Node != 0 {
		t.Errorf("%+v may be evicted, want the two pods of the first node", units)
	}
	if !slices.Equal(a.doubted, []string{"unsettled"}) {
		t.Errorf("the gang is tried again for nodes %v, want the one that has yet to report", a.doubted)
	}
}

// No victims are looked for if a group may not evict pods: that search takes some tenths of a second.
func TestAGroupThatNeverPreemptsCostsNoSearch(t *testing.T) {
	metrics.Register()
	pre := &Preemption{plugin: unasked{}}
	pods := []*v1.Pod{cpus("a", 4), cpus("b", 4)}
	for _, p := range pods {
		p.Spec.PreemptionPolicy = new(v1.PreemptNever)
	}
	_, status := pre.PodGroupPostFilter(t.Context(), framework.NewCycleState(),
		waiting{group: &schedulingv1beta1.PodGroup{}, pods: pods}, nil)
	const want = "preemption for the group: not eligible due to preemptionPolicy=Never."
	if status.Code() != fwk.Unschedulable || status.Message() != want {
		t.Errorf("%s: %q, want %q", status.Code(), status.Message(), want)
	}
}
