package plugin

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

func wakes(t *testing.T, hint fwk.QueueingHint, err error, want bool) {
	t.Helper()
	if err != nil || (hint == fwk.Queue) != want {
		t.Errorf("wakes %v (%v), want %v", hint == fwk.Queue, err, want)
	}
}

func TestTheFrameworkKnowsWhatWakesAPod(t *testing.T) {
	events, err := newPlugin(t, "").EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[fwk.EventResource]fwk.ActionType{}
	for _, e := range events {
		seen[e.Event.Resource] = e.Event.ActionType
	}
	if seen["nodelayouts.v1alpha1.tenon.sh"] != fwk.Add|fwk.Update|fwk.Delete || seen[fwk.Pod] != fwk.Update|fwk.Delete ||
		seen[fwk.Node] != fwk.Add {
		t.Errorf("events %v", seen)
	}
}

// The informer that fills the ledger may lag behind the hint: the woken pod must find the ledger in the hint's state,
// or it waits again for minutes.
func TestALayoutWakesThePodsThatFitIt(t *testing.T) {
	p := newPlugin(t, refuse)
	logger, pod := klog.Background(), cpus("p", 12)
	full := func(node string, version int) *v1alpha1.NodeLayout {
		return layout(t, node, two, place.SingleNUMA, version, holding(cpus("x", 10), "0-9"), holding(cpus("y", 10), "16-25"))
	}
	hint, err := p.layoutChanged(logger, pod, nil, full("n", 1))
	wakes(t, hint, err, false)
	p.Feed.Layout(layout(t, "other", two, place.SingleNUMA, 1))
	hint, err = p.layoutChanged(logger, pod, full("n", 1), full("n", 2))
	wakes(t, hint, err, false)
	hint, err = p.layoutChanged(
		logger,
		pod,
		full("n", 2),
		layout(t, "n", two, place.SingleNUMA, 3, holding(cpus("x", 10), "0-9")),
	)
	wakes(t, hint, err, true)
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
	p.Feed.Layout(full("n", 2)) // the informer's handler, later
	fits(t, filter(t, p, cycle(t, p, pod), "n"))

	bad := layout(t, "n", two, place.SingleNUMA, 4)
	bad.Machine.CPUs[1].CPUs = []v1alpha1.IDList{"15-30"}
	hint, err = p.layoutChanged(logger, pod, nil, bad)
	wakes(t, hint, err, false)
	if p.Feed.Problem("n") == "" {
		t.Error("the broken layout is not in the book")
	}
}

func TestAPodWakesWhenItAsksForSomethingElse(t *testing.T) {
	p := newPlugin(t, refuse)
	pod := cpus("p", 4)
	bad := noted(pod, "tenon.sh/numa-policy", "strict")
	tried := pod.DeepCopy()
	tried.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
	for _, c := range []struct {
		before, after *v1.Pod
		want          bool
	}{
		{pod, tried, false}, // what the scheduler wrote itself
		{bad, pod, true},
		{pod, noted(pod, "tenon.sh/numa-policy", "restricted"), true},
		{bad, noted(pod, "tenon.sh/numa-policy", "stricter"), false},
		{cpus("p", 6), pod, true},
	} {
		hint, err := p.podChanged(klog.Background(), pod, c.before, c.after)
		wakes(t, hint, err, c.want)
	}
}

func TestADeletedPodWakesThoseThatFitItsNode(t *testing.T) {
	p := newPlugin(t, refuse)
	x := bind(cpus("x", 16), "n")
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(x, "0-15"), holding(cpus("y", 16), "16-31")))
	p.Feed.Layout(layout(t, "other", two, place.SingleNUMA, 1, holding(cpus("z", 1), "0")))
	logger, pod := klog.Background(), cpus("p", 16)
	hint, err := p.podChanged(logger, pod, cpus("waiting", 1), nil)
	wakes(t, hint, err, false)
	hint, err = p.podChanged(logger, cpus("q", 17), x, nil)
	wakes(t, hint, err, false)
	hint, err = p.podChanged(logger, pod, x, nil) // it may still run: the node's report shows it
	wakes(t, hint, err, false)
	x.DeletionTimestamp, x.Status.Phase = &metav1.Time{Time: time.Unix(1, 0)}, v1.PodSucceeded
	hint, err = p.podChanged(logger, pod, x, nil)
	wakes(t, hint, err, true)
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
	hint, err = p.podChanged(logger, noted(pod, "tenon.sh/numa-policy", "strict"), x, nil)
	wakes(t, hint, err, false)
}

// The framework also reports a pod as deleted that could not be bound and will be tried again.
func TestAPodThatCouldNotBeBoundComesBack(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	x := cpus("x", 16)
	cs := cycle(t, p, x)
	fits(t, p.Reserve(t.Context(), cs, x, "n"))
	p.Unreserve(t.Context(), cs, x, "n")
	hint, err := p.podChanged(klog.Background(), cpus("p", 16), bind(x, "n"), nil)
	wakes(t, hint, err, true)
	fits(t, p.Reserve(t.Context(), cycle(t, p, x), x, "n"))
	p.Feed.Pod(bind(x, "n"))
	if n := p.Book.Snapshot().Node("n"); n.Usage.FreeCPUs().Len() != 16 {
		t.Errorf("%d CPUs are free, want 16", n.Usage.FreeCPUs().Len())
	}
}

// Pods that were kept from a node for a nominated pod can have it when the nomination ends.
func TestTheEndOfANominationWakes(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	before := cpus("x", 16)
	before.Status.NominatedNodeName = "n"
	hint, err := p.podChanged(klog.Background(), cpus("p", 16), before, nil)
	wakes(t, hint, err, true)
	hint, err = p.podChanged(klog.Background(), cpus("p", 17), before, nil)
	wakes(t, hint, err, false)
}

// Another scheduler's pod wakes no pod, and what it holds counts at once.
func TestAForeignPodIsBooked(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	x := cpus("x", 16)
	hint, err := p.podChanged(klog.Background(), cpus("p", 4), x, bind(x, "n"))
	wakes(t, hint, err, false)
	if n := p.Book.Snapshot().Node("n"); n.Usage.FreeCPUs().Len() != 16 {
		t.Errorf("%d CPUs are free, want 16", n.Usage.FreeCPUs().Len())
	}
}

func TestANewNodeWakesWhereItIsLetIn(t *testing.T) {
	for args, want := range map[string]bool{refuse: false, "": true} {
		p := newPlugin(t, args)
		p.Feed.Layout(layout(t, "known", two, place.SingleNUMA, 1))
		for node, want := range map[string]bool{"new": want, "known": true} {
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
			hint, err := p.nodeAdded(klog.Background(), cpus("p", 4), nil, n)
			wakes(t, hint, err, want)
		}
	}
}
