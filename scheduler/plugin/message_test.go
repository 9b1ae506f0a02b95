package plugin

import (
	"strings"
	"testing"

	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/core/summary"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// refusals returns the error of an attempt in which a plugin refused every node of a yard.
func refusals(y *yard, plugin string) *framework.FitError {
	why := &framework.FitError{NumAllNodes: len(y.nodes), Diagnosis: framework.Diagnosis{
		NodeToStatus: framework.NewDefaultNodeToStatus()}}
	for _, n := range y.nodes {
		why.Diagnosis.NodeToStatus.Set(n.Name, fwk.NewStatus(fwk.Unschedulable, "too full").WithPlugin(plugin))
	}
	return why
}

// written opens a scheduler whose snapshot has the nodes of a yard.
func written(t *testing.T, y *yard) (*contender, *Plugin, func()) {
	t.Helper()
	c := y.open(t, "tenon", shippedProfile(t))
	snapshot := c.f.SnapshotSharedLister().(*internalcache.Snapshot)
	update := func() {
		if err := c.sched.Cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
			t.Error(err)
		}
	}
	update()
	return c, c.shared.pluginOf(c.f.ProfileName()), update
}

// The sentence of an attempt is written beside the scheduling loop, while the loop goes on with other pods; the race
// detector shows whether it reads what the loop changes.
func TestSentencesAreWrittenBesideTheLoop(t *testing.T) {
	y := newYard(t, 50, 50)
	c, p, update := written(t, y)
	pod := podOf("waits", "cpu=33 memory=1Gi")
	why := refusals(y, Name)
	f := p.setMessage(pod, why)
	if f == nil || strings.Contains(why.Diagnosis.PreFilterMsg, "by node") {
		t.Fatalf("facts %v, message %q", f, why.Diagnosis.PreFilterMsg)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.write(why)
	}()
	for range 100 { // the loop
		other := bind(podOf("other", "cpu=1 memory=1Gi"), y.nodes[0].Name)
		if err := c.sched.Cache.AddPod(klog.Background(), other); err != nil {
			t.Fatal(err)
		}
		update()
		if err := c.sched.Cache.RemovePod(klog.Background(), other); err != nil {
			t.Fatal(err)
		}
		update()
	}
	<-done
	if got := summary.Cut(why.Diagnosis.PreFilterMsg); !strings.HasPrefix(got, "Not now: ") {
		t.Errorf("the message %q has no sentence", why.Diagnosis.PreFilterMsg)
	}
}

// A rejection at Reserve, or by a plugin that let the pod wait, is about one node and may come from a binding
// goroutine: nothing is said about the other nodes, and the loop's snapshot is not read.
func TestARejectionOnOneNodeHasNoSentence(t *testing.T) {
	y := newYard(t, 3, 50)
	_, p, _ := written(t, y)
	why := &framework.FitError{NumAllNodes: 1, Diagnosis: framework.Diagnosis{
		NodeToStatus: framework.NewDefaultNodeToStatus()}}
	why.Diagnosis.NodeToStatus.Set(y.nodes[0].Name, fwk.NewStatus(fwk.Unschedulable, "the group is not complete"))
	if f := p.setMessage(podOf("member", "cpu=1 memory=1Gi"), why); f != nil {
		t.Errorf("facts of %d nodes", len(f.answers))
	}
	if got := why.Diagnosis.PreFilterMsg; !strings.Contains(got, "1 the group is not complete") {
		t.Errorf("message %q", got)
	}
}

// The facts of few attempts are kept at a time. Further ones get a message without a sentence, and later ones one
// with it.
func TestFactsOfFewAttemptsAreKept(t *testing.T) {
	y := newYard(t, 3, 50)
	_, p, _ := written(t, y)
	var kept []*facts
	for range maxGathered + 5 {
		if f := p.setMessage(podOf("waits", "cpu=33 memory=1Gi"), refusals(y, Name)); f != nil {
			kept = append(kept, f)
		}
	}
	if len(kept) != maxGathered {
		t.Fatalf("the facts of %d attempts are kept, want %d", len(kept), maxGathered)
	}
	for _, f := range kept {
		f.write(refusals(y, Name))
	}
	why := refusals(y, Name)
	status := fwk.NewStatus(fwk.Unschedulable).WithError(why)
	p.setMessage(podOf("waits", "cpu=33 memory=1Gi"), why).writeNow(status)
	if got := summary.Cut(why.Diagnosis.PreFilterMsg); !strings.HasPrefix(got, "Never here: ") {
		t.Errorf("message %q", why.Diagnosis.PreFilterMsg)
	}
}

// Verdicts about a pod with many containers take long, so its sentence names no pods to wait for.
func TestSentencesOfLargePodsTakeFewVerdicts(t *testing.T) {
	y := newYard(t, 3, 50)
	_, p, _ := written(t, y)
	pod := podOf("large", "cpu=1 memory=1Gi")
	for range maxIndexed {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, *pod.Spec.Containers[0].DeepCopy())
		pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1].Name = "i" + string(rune('a'+len(pod.Spec.InitContainers)))
	}
	f := p.setMessage(pod, refusals(y, Name))
	if f == nil || !f.s.large() {
		t.Fatalf("facts %+v", f)
	}
	why := refusals(y, Name)
	f.write(why)
	if len(f.never) > 0 || len(f.out.Soonest.Looked) > 0 {
		t.Errorf("%d kinds of nodes were judged, and %d nodes searched", len(f.never), len(f.out.Soonest.Looked))
	}
}
