package plugin

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

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

// retrying returns a plugin as in another program's scheduler, with two full nodes.
func retrying(t *testing.T) (*Plugin, *activator) {
	p, a := newPlugin(t, refuse), &activator{}
	p.retries, p.handle = waiting.NewRetries(p.Book.Snapshot, p.activate), a
	for i, node := range []string{"a", "b"} {
		p.Feed.Layout(
			layout(
				t,
				node,
				two,
				place.SingleNUMA,
				i+1,
				holding(cpus("x-"+node, 14), "0-13"),
				holding(cpus("y-"+node, 14), "16-29"),
			),
		)
	}
	return p, a
}

// names returns the pods that are retried for a node.
func names(r *waiting.Retries, node string) (out []string) {
	for _, pods := range r.Fitting(node) {
		for name := range pods {
			out = append(out, name)
		}
	}
	return out
}

func TestARefusedPodIsRetriedWhenANodeThatRefusedItTakesIt(t *testing.T) {
	p, a := retrying(t)
	cs := cycle(t, p, cpus("p", 4))
	if status := filter(t, p, cs, "a"); status.IsSuccess() {
		t.Fatal("a full node takes the pod")
	}
	if got := names(p.retries, "a"); got != nil {
		t.Errorf("%v are retried though nothing has changed", got)
	}
	// Node b did not refuse the pod: another plugin keeps it away.
	p.Feed.Layout(layout(t, "b", two, place.SingleNUMA, 10))
	if got := names(p.retries, "b"); got != nil {
		t.Errorf("%v are retried for a node that this plugin did not refuse", got)
	}
	p.Feed.Layout(layout(t, "a", two, place.SingleNUMA, 11))
	if got := names(p.retries, "a"); len(got) != 1 || got[0] != "default/p" {
		t.Errorf("%v are retried, want the pod", got)
	}
	// The ledger did not have node c when the pod was tried.
	p.Feed.Layout(layout(t, "c", two, place.SingleNUMA, 12))
	if got := names(p.retries, "c"); len(got) != 1 {
		t.Errorf("%v are retried for a new node, want the pod", got)
	}
	if len(a.pods) > 0 {
		t.Errorf("%v are activated during their attempt", a.pods)
	}
	p.retries.Forget("uid-p")
	if got := names(p.retries, "a"); got != nil {
		t.Errorf("%v are retried though they are gone", got)
	}
}

// A node that changes between the snapshot of an attempt and its refusal must still wake the pod.
func TestAnAttemptOnAnOldStateIsMadeAgain(t *testing.T) {
	p, a := retrying(t)
	cs := cycle(t, p, cpus("p", 4))
	p.Feed.Layout(layout(t, "a", two, place.SingleNUMA, 10))
	p.Feed.Layout(layout(t, "b", two, place.SingleNUMA, 11))
	filter(t, p, cs, "a")
	filter(t, p, cs, "b")
	if len(a.pods) != 1 || a.pods[0] != "default/p" {
		t.Errorf("%v are activated, want the pod once", a.pods)
	}
}

// The end of a pod that the waiting pod could not have evicted may let it evict others.
func TestTheEndOfAnImportantPodLetsOthersPreempt(t *testing.T) {
	p, _ := retrying(t)
	p.amounts = inMemory(
		t,
		nodeInfo("a").Node(),
		ranked(bind(cpus("x-a", 14), "a"), 1),
		ranked(bind(cpus("y-a", 14), "a"), 9),
	)
	pod := ranked(cpus("p", 15), 5)
	cs := cycle(t, p, pod)
	filter(t, p, cs, "a")
	for priority, want := range map[int32]fwk.QueueingHint{4: fwk.QueueSkip, 9: fwk.Queue} {
		gone := ranked(bind(cpus("gone", 1), "a"), priority)
		hint, err := p.podChanged(p.logger, pod, gone, nil)
		if err != nil || hint != want {
			t.Errorf("the end of a pod of priority %d: hint %v, error %v, want %v", priority, hint, err, want)
		}
	}
}
