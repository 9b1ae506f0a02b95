package plugin

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// dryRun does the steps of a preemption's dry run on one node.
type dryRun struct {
	t    *testing.T
	p    *Plugin
	cs   fwk.CycleState
	node fwk.NodeInfo
}

func (d dryRun) without(pods ...*v1.Pod) dryRun {
	d.t.Helper()
	for _, x := range pods {
		fits(d.t, d.p.RemovePod(d.t.Context(), d.cs, nil, podInfo(d.t, x), d.node))
	}
	return d
}

func (d dryRun) with(pods ...*v1.Pod) dryRun {
	d.t.Helper()
	for _, x := range pods {
		fits(d.t, d.p.AddPod(d.t.Context(), d.cs, nil, podInfo(d.t, x), d.node))
	}
	return d
}

// clone continues with a separate state, as the framework does for every node.
func (d dryRun) clone() dryRun { d.cs = d.cs.Clone(); return d }

func (d dryRun) wantFit(want bool, when string) {
	d.t.Helper()
	if s := d.p.Filter(d.t.Context(), d.cs, nil, d.node); s.IsSuccess() != want {
		d.t.Errorf("%s: fits is %v, want %v (%s)", when, !want, want, s.Message())
	}
}

// evictAll begins to schedule a pod of 12 CPUs on a node that the pods a and b fill, and on which a plain pod runs.
func evictAll(t *testing.T) (d dryRun, a, b, plain *v1.Pod) {
	p := newPlugin(t, refuse)
	a, b, plain = cpus("a", 16), cpus("b", 16), podOf("plain", "cpu=1")
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(a, "0-15"), holding(b, "16-31")))
	return dryRun{t, p, cycle(t, p, cpus("high", 12)), nodeInfo("n")}, a, b, plain
}

func TestVictimsAreSparedInAnyOrder(t *testing.T) {
	d, a, b, plain := evictAll(t)
	d.wantFit(false, "before")
	d.without(a, b, plain).wantFit(true, "without anybody")
	d.with(plain).wantFit(true, "with the plain pod spared")
	d.with(b).wantFit(true, "with b spared")
	d.clone().with(a).wantFit(false, "with a and b spared")
	d.without(b).with(a).wantFit(true, "with a spared and not b")
	d.with(b).wantFit(false, "with all spared")
	d.without(a, a).with(a).wantFit(false, "with a removed twice and spared")
}

func TestADryRunChangesNothingElse(t *testing.T) {
	d, a, b, _ := evictAll(t)
	one, other := d.clone(), d.clone()
	one.without(a).wantFit(true, "without a")
	other.wantFit(false, "in another clone")
	d.wantFit(false, "in the original")
	d.without(b)
	one.clone().with(a).wantFit(false, "with a again")
	one.wantFit(true, "after a clone was changed")
	if n := d.p.Book.Snapshot().Node("n"); len(n.Entries) != 2 || !n.Usage.FreeCPUs().Empty() {
		t.Errorf("the book has %v", n.Entries)
	}
	other.node = nodeInfo("unknown")
	fits(t, other.without(a).with(b).p.RemovePod(t.Context(), other.cs, nil, podInfo(t, a), other.node))
}

func TestNominatedPodsCount(t *testing.T) {
	d, a, b, plain := evictAll(t)
	nominated, much := cpus("nominated", 12), cpus("much", 30)
	d.without(a).wantFit(true, "without a")
	d.with(nominated, plain, nominated).wantFit(false, "with a nominated pod where a was")
	d.without(b).wantFit(true, "without b, too")
	d.with(b).wantFit(false, "with b spared")
	d.clone().without(nominated).wantFit(true, "without the nominated pod")
	d.with(much).without(nominated).wantFit(true, "a pod that would be refused holds nothing")
	huge := podOf("huge", "cpu=1 memory=4Pi")
	d.with(huge).wantFit(true, "a pod beyond any machine holds nothing")
}
