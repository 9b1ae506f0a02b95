package plugin

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/waiting"
)

// activator is a handle that records which pods are activated.
type activator struct {
	fwk.Handle
	pods []string
}

func (a *activator) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	for name := range pods {
		a.pods = append(a.pods, name)
	}
}

func (*activator) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

// elsewhere is the plugin in another program's scheduler, with two full nodes.
type elsewhere struct {
	*Plugin
	activator
	t *testing.T
	// pending are delayed calls of the queue, with their delays.
	pending map[time.Duration][]func()
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	o := &elsewhere{Plugin: newPlugin(t, refuse), t: t, pending: map[time.Duration][]func(){}}
	o.handle, o.alone = &o.activator, true
	o.waiting = waiting.NewQueue(o.Book.Snapshot, func(d time.Duration, do func()) {
		o.pending[d] = append(o.pending[d], do)
	})
	o.waiting.Unheard()
	o.Book.OnChange(o.waiting.Change)
	for i, node := range []string{"a", "b"} {
		o.Feed.Layout(layout(t, node, two, place.SingleNUMA, i+1, holding(cpus("x-"+node, 14), "0-13"),
			holding(cpus("y-"+node, 14), "16-29")))
	}
	return o
}

// attempt tries a pod on nodes, and returns how they answered.
func (o *elsewhere) attempt(pod *v1.Pod, during func(), nodes ...string) *framework.NodeToStatus {
	o.t.Helper()
	cs := cycle(o.t, o.Plugin, pod)
	during()
	out := framework.NewDefaultNodeToStatus()
	for _, n := range nodes {
		if status := filter(o.t, o.Plugin, cs, n); !status.IsSuccess() {
			out.Set(n, status.WithPlugin(o.name))
		}
	}
	return out
}

// pass lets a second pass, and returns the pods that are activated since the last call.
func (o *elsewhere) pass() []string {
	for _, d := range []time.Duration{200 * time.Millisecond, time.Second} {
		calls := o.pending[d]
		delete(o.pending, d)
		for _, do := range calls {
			do()
		}
	}
	for woken, more := o.waiting.Next(); more; woken, more = o.waiting.Next() {
		o.try(woken)
	}
	out := o.activator.pods
	o.activator.pods = nil
	return out
}

// fails reports an attempt as kube-scheduler does: PostFilter is the last that the plugin learns.
func (o *elsewhere) fails(pod *v1.Pod, answers *framework.NodeToStatus) {
	o.t.Helper()
	if _, status := o.PostFilter(o.t.Context(), nil, pod, answers); status.Code() != fwk.Unschedulable {
		o.t.Fatalf("PostFilter answers %v", status)
	}
}

func TestARefusedPodIsTriedWhenANodeThatRefusedItTakesIt(t *testing.T) {
	o := newElsewhere(t)
	pod := cpus("p", 4)
	answers := o.attempt(pod, func() {}, "a")
	answers.Set("b", fwk.NewStatus(fwk.Unschedulable).WithPlugin("NodeResourcesFit"))
	o.fails(pod, answers)
	if got := o.pass(); got != nil {
		t.Errorf("%v are activated though nothing has changed", got)
	}
	o.Feed.Layout(layout(t, "b", two, place.SingleNUMA, 10))
	if got := o.pass(); got != nil {
		t.Errorf("%v are activated for a node that this plugin did not refuse", got)
	}
	o.Feed.Layout(layout(t, "a", two, place.SingleNUMA, 11))
	if got := o.pass(); !slices.Equal(got, []string{"default/p"}) {
		t.Errorf("%v are activated, want the pod", got)
	}
	o.fails(pod, o.attempt(pod, func() {}))
	if got := o.pass(); got != nil {
		t.Errorf("%v are activated for a node that did not refuse them", got)
	}
}

func TestARefusedPodIsTriedOnANewNode(t *testing.T) {
	o := newElsewhere(t)
	pod := cpus("p", 4)
	o.fails(pod, o.attempt(pod, func() {}, "a", "b"))
	o.Feed.Layout(layout(t, "c", two, place.SingleNUMA, 12))
	if got := o.pass(); len(got) != 1 {
		t.Errorf("%v are activated for a new node, want the pod", got)
	}
	o.waiting.Remove("uid-p")
	o.Feed.Layout(layout(t, "a", two, place.SingleNUMA, 13))
	if got := o.pass(); got != nil {
		t.Errorf("%v are activated though they are gone", got)
	}
}

// A node that changes between the snapshot of an attempt and its refusal must still wake the pod.
func TestAnAttemptOnAnOldStateIsMadeAgain(t *testing.T) {
	o := newElsewhere(t)
	pod := cpus("p", 4)
	o.fails(pod, o.attempt(pod, func() {
		o.Feed.Layout(layout(t, "a", two, place.SingleNUMA, 10))
		o.Feed.Layout(layout(t, "b", two, place.SingleNUMA, 11))
	}, "a", "b"))
	if got := o.pass(); !slices.Equal(got, []string{"default/p"}) {
		t.Errorf("%v are activated, want the pod once", got)
	}
}

// Another plugin's PostFilter may end an attempt, for example DefaultPreemption's: the plugin does not learn that.
func TestAnAttemptWhoseEndIsNotReportedLapses(t *testing.T) {
	o := newElsewhere(t)
	o.attempt(cpus("p", 4), func() {}, "a", "b")
	o.Feed.Layout(layout(t, "a", two, place.SingleNUMA, 10))
	if got := o.pass(); !slices.Equal(got, []string{"default/p"}) {
		t.Errorf("%v are activated, want the pod", got)
	}
}

// Sixty pods wait for one place: only those that it has room for are tried.
func TestOneFreePlaceWakesOnePod(t *testing.T) {
	o := newElsewhere(t)
	for i := range 60 {
		pod := cpus(string(rune('A'+i)), 16)
		o.fails(pod, o.attempt(pod, func() {}, "a", "b"))
	}
	o.pass()
	o.Feed.Layout(layout(t, "a", two, place.SingleNUMA, 10, holding(cpus("y-a", 14), "16-29")))
	if got := o.pass(); len(got) != 1 {
		t.Errorf("%d pods are activated for one place", len(got))
	}
}

// The end of a pod that the waiting pod could not have evicted may let it evict others.
func TestTheEndOfAnImportantPodLetsOthersPreempt(t *testing.T) {
	o := newElsewhere(t)
	o.amounts = inMemory(t, nodeInfo("a").Node(), ranked(bind(cpus("x-a", 14), "a"), 1),
		ranked(bind(cpus("y-a", 14), "a"), 9))
	pod := ranked(cpus("p", 15), 5)
	o.attempt(pod, func() {}, "a")
	for priority, want := range map[int32]fwk.QueueingHint{4: fwk.QueueSkip, 9: fwk.Queue} {
		gone := ranked(bind(cpus("gone", 1), "a"), priority)
		hint, err := o.podChanged(o.logger, pod, gone, nil)
		if err != nil || hint != want {
			t.Errorf("the end of a pod of priority %d: hint %v, error %v, want %v", priority, hint, err, want)
		}
	}
}
