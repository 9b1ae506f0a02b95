package plugin

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/summary"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/promise"
	"github.com/tenon-numa/tenon/scheduler/steer"
)

// named is an activator with the name of a profile, and with pods that are nominated to each node.
type named struct {
	activator
	nominated []fwk.PodInfo
}

func (*named) ProfileName() string { return v1.DefaultSchedulerName }

func (n *named) NominatedPodsForNode(string) []fwk.PodInfo { return n.nominated }

// newKeeping returns a plugin that keeps device gpu on node n for the only pod of request ml/r.
func newKeeping(t *testing.T) (*Plugin, *named) {
	t.Helper()
	p, h := newPlugin(t, refuse), &named{}
	p.handle, p.any, p.alone = h, h, false
	p.newQueue()
	p.promises = p.newKeeper()
	p.promises.Open()
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	x := promise.Place{Node: "n", Pod: promise.Pod{Pod: &place.Pod{}, Claims: "gpu", Claimed: true},
		Devices: promise.Devices{IDs: []claims.ID{{Name: "gpu"}}}}
	if err := p.promises.Restore(promise.Request{Name: "ml/r"}, []promise.Place{x}); err != nil {
		t.Fatal(err)
	}
	return p, h
}

// A pod that was reserved, and whose devices do not count, is tried again, also if no kubelet aligns it.
func TestPodsWithoutTheirDevicesAreTriedAgain(t *testing.T) {
	p, h := newKeeping(t)
	for _, pod := range []*v1.Pod{cpus("aligned", 4), podOf("plain", "cpu=1500m")} {
		if pod.Name == "aligned" {
			if s := p.Reserve(t.Context(), cycle(t, p, pod), pod, "n"); !s.IsSuccess() {
				t.Fatal(s.Message())
			}
		}
		places{p.Shared, v1.DefaultSchedulerName}.Allocated(pod, "n", steer.Near{}, false)
		if !slices.Contains(h.pods, pod.Namespace+"/"+pod.Name) {
			t.Errorf("pod %s is not tried again", pod.Name)
		}
	}
}

// A pod that found no devices, because some were kept, is tried again when they are not, however late in its attempt
// that was.
func TestPodsThatFoundDevicesKept(t *testing.T) {
	for _, late := range []bool{false, true} {
		p, h := newKeeping(t)
		spend := promise.Coming{UID: "own", Request: "ml/r", Node: "n", Pod: &place.Pod{}, Claims: "gpu"}
		p.promises.Use(spend, func(whatif.Amounts) bool { return true })
		pod := cpus("other", 4)
		cs, at := cycle(t, p, pod), promised{places{p.Shared, v1.DefaultSchedulerName}}
		if hidden := at.Hidden(); len(at.Offers(cs, pod, hidden)) > 0 || len(hidden) != 1 {
			t.Fatalf("another pod is offered some of %v", hidden)
		}
		if late {
			p.promises.Came("own")
		}
		if p.afterFailure(cs, pod) {
			t.Error("the pod may evict none")
		}
		if len(h.pods) > 0 && !late {
			t.Error("the pod is tried again while the device is kept")
		}
		if p.promises.Came("own"); len(h.pods) == 0 {
			t.Errorf("late %v: the pod is not tried again", late)
		}
	}
}

// After a restart, devices are kept again for a place, also while a pod is nominated to the node that waits for others
// to end there, so that the node has no room for new places.
func TestPlacesGetTheirDevicesAgain(t *testing.T) {
	waits := cpus("waits", 30)
	p := newPlugin(t, refuse)
	p.any = &named{nominated: []fwk.PodInfo{podInfo(t, waits)}}
	p.promises = p.newKeeper()
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	p.amounts = inMemory(t, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{
		Allocatable: podOf("", "cpu=32 memory=64Gi").Spec.Containers[0].Resources.Requests}})
	r, status := translate(cpus("kept", 4))
	if status != nil {
		t.Fatal(status.Message())
	}
	x := promise.Place{Node: "n", Pod: promise.Pod{Pod: r.pod, Demand: r.demand, Claims: "gpu", Claimed: true}}
	if err := p.promises.Restore(promise.Request{Name: "ml/r"}, []promise.Place{x}); err != nil {
		t.Fatal(err)
	}
	list := p.promises.On("n")
	if list[0].IDs = []claims.ID{{Name: "gpu"}}; !p.promises.Assign("n", list) {
		t.Error("the place gets no devices")
	}
	full, err := p.promises.Keep(promise.Request{Name: "ml/new"}, []promise.Place{x})
	if err != nil || !slices.Equal(full, []string{"n"}) {
		t.Errorf("a new place is kept beside the nominated pod: full are %v (%v)", full, err)
	}
}

// While a nominated pod is tried, kube-scheduler's queue has only its name. No new place is kept in its room then, as
// while it waits in the queue.
func TestNominatedPodsKeepTheirRoomWhileTheyAreTried(t *testing.T) {
	waits, ended := cpus("waits", 30), cpus("ended", 30)
	p, h := newPlugin(t, refuse), &named{}
	p.any, p.promises = h, p.newKeeper()
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	p.amounts = inMemory(t, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{
		Allocatable: podOf("", "cpu=32 memory=64Gi").Spec.Containers[0].Resources.Requests}}, waits)
	r, status := translate(cpus("kept", 4))
	if status != nil {
		t.Fatal(status.Message())
	}
	x := promise.Place{Node: "n", Pod: promise.Pod{Pod: r.pod, Demand: r.demand}}
	for _, c := range []struct {
		pod  *v1.Pod
		full int
	}{{waits, 1}, {ended, 0}} {
		name := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.pod.Namespace, Name: c.pod.Name, UID: c.pod.UID}}
		h.nominated = []fwk.PodInfo{podInfo(t, name)}
		full, err := p.promises.Keep(promise.Request{Name: "ml/" + c.pod.Name}, []promise.Place{x})
		if err != nil || len(full) != c.full {
			t.Errorf("beside pod %s, which is nominated, full are %v (%v), want %d nodes", c.pod.Name, full, err, c.full)
		}
	}
}

// A group cycle shows a pod on its node before it is reserved there. The pod counts once beside what is kept for
// others.
func TestAPodThatIsShownOnItsNodeCountsOnce(t *testing.T) {
	own := cpus("own", 4)
	own.Annotations = map[string]string{apipod.ConsumeAnnotation: "r", apipod.ClassAnnotation: apipod.Class}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{
		Allocatable: podOf("", "cpu=8 memory=64Gi pods=10").Spec.Containers[0].Resources.Requests}}
	for shown, others := range map[string][]*v1.Pod{"": nil, "own": {bind(own.DeepCopy(), "n")}} {
		p := newPlugin(t, refuse)
		f, err := frameworkruntime.NewFramework(t.Context(), frameworkruntime.Registry{}, nil,
			viewOf(internalcache.NewSnapshot(others, []*v1.Node{node}))...)
		if err != nil {
			t.Fatal(err)
		}
		p.handle, p.promises, p.amounts = f, p.newKeeper(), inMemory(t, node)
		p.promises.Open()
		p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
		cs := cycle(t, p, own)
		a := p.read(cs, own)
		x := promise.Place{Node: "n", Pod: promise.Pod{Pod: a.pod, Demand: a.demand, Needs: a.needs()}}
		if err := p.promises.Restore(promise.Request{Name: own.Namespace + "/r"}, []promise.Place{x, x}); err != nil {
			t.Fatal(err)
		}
		if s := p.Reserve(t.Context(), cs, own, "n"); !s.IsSuccess() {
			t.Errorf("with the pod %q on the node: %s", shown, s.Message())
		}
	}
}

// The message of a pod names the node that keeps room for it, and has refused a pod like it since its last report.
func TestANodeMayHaveLostTheRoomOfAPod(t *testing.T) {
	own := cpus("own", 4)
	own.Annotations = map[string]string{apipod.ConsumeAnnotation: "r", apipod.ClassAnnotation: apipod.Class}
	p := newPlugin(t, refuse)
	p.promises = p.newKeeper()
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	p.amounts = inMemory(t, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{
		Allocatable: podOf("", "cpu=32 memory=64Gi").Spec.Containers[0].Resources.Requests}})
	s, status := translate(own)
	if status != nil {
		t.Fatal(status.Message())
	}
	x := promise.Place{Node: "n", Pod: promise.Pod{Pod: s.pod, Demand: s.demand}}
	full, err := p.promises.Keep(promise.Request{Name: own.Namespace + "/r"}, []promise.Place{x})
	if err != nil || len(full) > 0 {
		t.Fatalf("the place is not kept: full are %v (%v)", full, err)
	}
	for _, want := range [][]string{nil, {"n"}} {
		s.snap = p.Book.Snapshot()
		if lost, unsure := p.roomsOf(own, s); len(lost) > 0 || !slices.Equal(unsure, want) {
			t.Errorf("nodes %v have lost the room and %v may have, want none and %v", lost, unsure, want)
		}
		foreign := bind(cpus("foreign", 4), "n")
		p.Feed.Pod(foreign)
		foreign = foreign.DeepCopy()
		foreign.Status.Phase, foreign.Status.Reason = v1.PodFailed, string(place.TopologyAffinityError)
		p.Feed.Pod(foreign)
	}
	p.Feed.Layout(layout(t, "other", two, place.SingleNUMA, 1))
	why := &framework.FitError{NumAllNodes: 1, Diagnosis: framework.Diagnosis{
		NodeToStatus: framework.NewDefaultNodeToStatus()}}
	why.Diagnosis.NodeToStatus.Set("n", fwk.NewStatus(fwk.Unschedulable, "refused"))
	p.setMessage(own, why)
	if want := "; node n has not reported yet"; !strings.Contains(summary.Cut(why.Diagnosis.PreFilterMsg), want) {
		t.Errorf("after a refusal by the chosen node, the message is %q, want %q in its sentence",
			why.Diagnosis.PreFilterMsg, want)
	}
}
