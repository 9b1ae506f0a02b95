package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// layoutOf returns the layout of a node of two NUMA nodes with 8 CPUs each; CPUs 0 and 8 are reserved.
func layoutOf(t *testing.T, node string, version int, entries ...state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	m := machineOf(t, "numa 0 cpus 0-7 memory 16Gi\nnuma 1 socket 1 cpus 8-15 memory 16Gi")
	r := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 8)}}
	l := v1alpha1.FromCore(node, m, r, entries, nil)
	l.ResourceVersion = fmt.Sprint(version)
	return l
}

func machineOf(t testing.TB, text string) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// broken returns a layout with a CPU in two NUMA nodes.
func broken(t *testing.T, node string, version int) *v1alpha1.NodeLayout {
	l := layoutOf(t, node, version)
	l.Machine.CPUs[1].CPUs = []v1alpha1.IDList{"7-14"}
	return l
}

// bind returns the pod bound to a node.
func bind(p *v1.Pod, node string, at time.Time) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	p.Status.Conditions = []v1.PodCondition{
		{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)},
	}
	return p
}

func begun(book *ledger.Book) *Feed {
	f := NewFeed(book, nil, nil)
	f.Begin()
	return f
}

// held returns which pods hold which CPUs on a node, in order, or "unknown".
func held(b *ledger.Book, node string) string {
	n := b.Snapshot().Node(node)
	if n == nil {
		return "unknown"
	}
	var out []string
	for _, e := range n.Entries {
		var cpus idset.Set[idset.CPU]
		for _, h := range e.Holdings {
			cpus = cpus.Union(h.CPUs)
		}
		out = append(out, e.Pod.Name+"="+cpus.String())
	}
	return strings.Join(out, " ")
}

func wantHeld(t *testing.T, b *ledger.Book, node, want string) {
	t.Helper()
	if got := held(b, node); got != want {
		t.Errorf("node %s: %q is held, want %q", node, got, want)
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func four(name string) *v1.Pod { return podtest.Pod(name, podtest.Exact("c", "cpu=4 memory=1Gi")) }

func TestARefusedLayoutCostsItsOwnNodeOnly(t *testing.T) {
	book := ledger.New()
	var said []string
	f := NewFeed(book, nil, func(node string, err error) {
		if err == nil {
			err = errors.New("mended")
		}
		said = append(said, node+": "+err.Error())
	})
	f.Layout(conditioned(layoutOf(t, "a", 1), metav1.ConditionTrue))
	f.Layout(conditioned(layoutOf(t, "b", 2), metav1.ConditionTrue))
	f.Layout(broken(t, "a", 3))
	wantHeld(t, book, "a", "unknown")
	wantHeld(t, book, "b", "")
	const why = `layout of node "a": machine: cpu 7 is in NUMA node 0 and in NUMA node 1`
	if got := f.Problem("a"); got != why {
		t.Errorf("problem of a: %q, want %q", got, why)
	}
	if f.Problem("b") != "" {
		t.Errorf("problem of b: %q", f.Problem("b"))
	}
	f.Layout(broken(t, "a", 4))
	f.Layout(layoutOf(t, "a", 5))
	wantHeld(t, book, "a", "")
	if f.Problem("a") != "" {
		t.Errorf("problem of the mended layout: %q", f.Problem("a"))
	}
	if want := []string{"a: " + why, "a: mended"}; !slices.Equal(said, want) {
		t.Errorf("told %q, want %q", said, want)
	}
}

// A new layout gets its conditions, and so does one whose scheduler ended before it was corrected.
func TestALayoutWithoutItsConditionsIsReported(t *testing.T) {
	told := 0
	f := NewFeed(ledger.New(), nil, func(_ string, err error) {
		if err == nil {
			told++
		}
	})
	for i, c := range []struct {
		layout *v1alpha1.NodeLayout
		want   int
	}{
		{layoutOf(t, "a", 1), 1},
		{conditioned(layoutOf(t, "a", 2), metav1.ConditionTrue), 1},
		{conditioned(layoutOf(t, "a", 3), metav1.ConditionFalse), 2},
	} {
		if f.Layout(c.layout); told != c.want {
			t.Errorf("layout %d: told %d times of a layout without its conditions, want %d", i, told, c.want)
		}
	}
}

// conditioned gives a layout the conditions of an exact one, and Accepted with a status.
func conditioned(l *v1alpha1.NodeLayout, accepted metav1.ConditionStatus) *v1alpha1.NodeLayout {
	l.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: accepted},
		{Type: v1alpha1.ConditionExact, Status: metav1.ConditionTrue}}
	return l
}

func TestOldVersionsOfALayoutChangeNothing(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	seven := state.Entry{Pod: ID(four("x")), Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](7)}}}
	f.Layout(layoutOf(t, "n", 10, seven))
	f.Layout(layoutOf(t, "n", 9))
	wantHeld(t, book, "n", "x=7")
	f.LayoutGone(layoutOf(t, "n", 9)) // of a layout that was created again since
	wantHeld(t, book, "n", "x=7")
	f.Layouts().OnDelete(layoutOf(t, "n", 11))
	wantHeld(t, book, "n", "unknown")
	f.Layout(layoutOf(t, "n", 10, seven)) // a late hint
	wantHeld(t, book, "n", "unknown")
	f.Layouts().OnAdd(layoutOf(t, "n", 12), false)
	wantHeld(t, book, "n", "")
	f.Layouts().OnDelete(cache.DeletedFinalStateUnknown{Key: "n", Obj: layoutOf(t, "n", 12)})
	wantHeld(t, book, "n", "unknown")
}

// After a restart the predictions are the same as before: they depend on the order of bindings.
func TestPodsBoundBeforeBeginAreBookedInBindingOrder(t *testing.T) {
	book := ledger.New()
	f := NewFeed(book, nil, nil)
	f.Layout(layoutOf(t, "n", 1))
	late, early, unbound, same := four("late"), four("early"), four("unbound"), four("also-early")
	late = bind(late, "n", noon.Add(time.Minute))
	for _, p := range []*v1.Pod{late, bind(same, "n", noon), unbound, bind(early, "n", noon)} {
		if p.Name == "early" {
			p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
		} else {
			p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
		}
		f.Pods().OnAdd(p, true)
	}
	wantHeld(t, book, "n", "")
	f.Begin()
	wantHeld(t, book, "n", "early=1-4 also-early=9-12")
	f.PodGone(early)
	wantHeld(t, book, "n", "also-early=1-4 late=9-12")
}

func TestAPodThatEndedBeforeBeginIsNotBooked(t *testing.T) {
	book := ledger.New()
	f := NewFeed(book, nil, nil)
	f.Layout(layoutOf(t, "n", 1))
	p := bind(four("p"), "n", noon)
	f.Pod(p)
	f.Pods().OnDelete(p)
	f.Begin()
	wantHeld(t, book, "n", "")
}

func TestPodsThatEndReleaseWhatTheyHold(t *testing.T) {
	p := bind(four("p"), "n", noon)
	succeeded, failed := p.DeepCopy(), p.DeepCopy()
	succeeded.Status.Phase, failed.Status.Phase = v1.PodSucceeded, v1.PodFailed
	for name, end := range map[string]func(f *Feed){
		"deleted": func(f *Feed) { f.Pods().OnDelete(failed) },
		"deleted, not seen": func(f *Feed) {
			f.Pods().OnDelete(cache.DeletedFinalStateUnknown{Key: "default/p", Obj: failed})
		},
		"succeeded":          func(f *Feed) { f.Pods().OnUpdate(p, succeeded) },
		"failed":             func(f *Feed) { f.Pods().OnUpdate(p, failed) },
		"twice":              func(f *Feed) { f.Pod(failed); f.PodGone(failed) },
		"then a late update": func(f *Feed) { f.PodGone(failed); f.Pod(p) },
	} {
		t.Run(name, func(t *testing.T) {
			book := ledger.New()
			f := begun(book)
			f.Layout(layoutOf(t, "n", 1))
			f.Pods().OnAdd(p, false)
			f.Pods().OnUpdate(p, p)
			wantHeld(t, book, "n", "p=1-4")
			end(f)
			wantHeld(t, book, "n", "")
			f.Layout(layoutOf(t, "n", 2))
			f.Pod(p) // a hint after the node's report
			wantHeld(t, book, "n", "")
		})
	}
}

// A pod that was deleted by force may still run on its node, and its object no longer shows it.
func TestAPodDeletedByForceHoldsUntilItsNodeSaysOtherwise(t *testing.T) {
	p, q := bind(four("p"), "n", noon), bind(four("q"), "n", noon)
	book := ledger.New()
	f := begun(book)
	var due []func()
	f.later = func(after time.Duration, do func()) {
		if after == vanishGrace {
			due = append(due, do)
		}
	}
	f.Layout(layoutOf(t, "n", 1))
	f.Pod(p)
	observed := book.Snapshot().Node("n").Entries
	f.Layout(layoutOf(t, "n", 2, observed...))
	f.PodGone(p)
	wantHeld(t, book, "n", "p=1-4")
	f.Layout(layoutOf(t, "n", 3))
	wantHeld(t, book, "n", "")

	f.Pod(q)
	f.PodGone(q)
	wantHeld(t, book, "n", "q=1-4")
	if len(due) != 1 {
		t.Fatalf("%d pods are waited for, want q alone", len(due))
	}
	due[0]() // q was never reported
	wantHeld(t, book, "n", "")
}

// A layout is deleted, with the object of the node for example, and pods end before another one is written. A layout
// that still lists them does not make them hold anything.
func TestAPodThatEndsWithoutALayoutHoldsNothingAfterwards(t *testing.T) {
	p, q := bind(four("p"), "n", noon), bind(four("q"), "n", noon)
	ended := p.DeepCopy()
	ended.Status.Phase = v1.PodSucceeded
	book := ledger.New()
	f := begun(book)
	f.later = func(time.Duration, func()) {}
	f.Layout(layoutOf(t, "n", 1))
	f.Pod(p)
	f.Pod(q)
	listed := book.Snapshot().Node("n").Entries
	before := layoutOf(t, "n", 2, listed...)
	f.Layout(before)
	f.LayoutGone(before)
	f.PodGone(ended)
	f.PodGone(q) // by force
	f.Layout(layoutOf(t, "n", 3, listed...))
	wantHeld(t, book, "n", "q=9-12")
	if !book.Doubted(string(q.UID)) {
		t.Error("a pod that was deleted by force is taken for one that runs")
	}
}

// Queueing hints pass events of pods in their own time: an older object does not undo what a newer one has shown.
func TestAnOlderObjectOfAPodHasNoEffect(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Layout(layoutOf(t, "n", 1))
	old := bind(four("p"), "n", noon)
	old.ResourceVersion = "9"
	leaving := old.DeepCopy()
	leaving.ResourceVersion, leaving.DeletionTimestamp = "10", new(metav1.NewTime(noon))
	f.Pod(leaving)
	f.Pod(old)
	if !f.bound.pods[string(old.UID)].leaving {
		t.Error("a pod that is being deleted is taken for one that stays")
	}
}

func TestAPodThatItsNodeRefusesIsToldAndItsShapeKeptAway(t *testing.T) {
	book := ledger.New()
	var told []string
	f := NewFeed(book, func(o state.Outcome) { told = append(told, Describe(nil, o)) }, nil)
	f.Begin()
	f.Layout(layoutOf(t, "n", 1))
	f.Pod(bind(four("p"), "n", noon))
	refused := bind(four("p"), "n", noon)
	refused.Status.Phase, refused.Status.Reason = v1.PodFailed, "TopologyAffinityError"
	f.Pod(refused)
	f.PodGone(refused)
	want := []string{"pod default/p on node n: refused (TopologyAffinityError): predicted c: cpus 1-4"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	fits := func(name, amounts string) bool {
		p, err := pod.ToPlace(podtest.Pod(name, podtest.Exact("c", amounts)))
		if err != nil {
			t.Fatal(err)
		}
		v := book.Snapshot().Node("n").Place(p, place.Demand{})
		return v.Fits() && book.Snapshot().Node("n").Fits(p)
	}
	if fits("q", "cpu=4 memory=1Gi") {
		t.Error("a pod of the same shape goes to the node that refused it")
	}
	if !fits("q", "cpu=2 memory=1Gi") {
		t.Error("a pod of another shape is kept away")
	}
	f.Layout(layoutOf(t, "n", 2))
	if !fits("q", "cpu=4 memory=1Gi") {
		t.Error("the shape is kept away though the node has reported again")
	}
}

// A delayed write of an agent arrives with a new resource version.
func TestALateWriteOfAnAgentIsOld(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	write := func(uid types.UID, version int, sequence int64, entries ...state.Entry) {
		l := layoutOf(t, "n", version, entries...)
		l.UID, l.Sequence = uid, sequence
		f.Layout(l)
	}
	write("a", 1, 1)
	f.Pod(bind(four("p"), "n", noon))
	p := book.Snapshot().Node("n").Entries
	write("a", 2, 3, p...)
	write("a", 3, 2)
	wantHeld(t, book, "n", "p=1-4")
	write("a", 4, 4)
	wantHeld(t, book, "n", "")
	write("b", 5, 1, p...) // the object was created again, with a new count
	wantHeld(t, book, "n", "p=1-4")
}

// The pods of a node without a layout are booked when the layout arrives.
func TestPodsOfANodeWithoutALayoutWaitForIt(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Pod(bind(four("a"), "n", noon))
	f.Pod(bind(four("gone"), "n", noon))
	f.PodGone(four("gone"))
	f.Pod(bind(four("gone"), "n", noon))
	wantHeld(t, book, "n", "unknown")
	f.Layout(layoutOf(t, "n", 1))
	wantHeld(t, book, "n", "a=1-4")
}

func TestOnlyPodsThatAreAlignedAreBooked(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Layout(layoutOf(t, "n", 1))
	f.Pod(bind(podtest.Pod("web", podtest.Box("c", "cpu=500m", "")), "n", noon))
	f.Pod(bind(podtest.Pod("huge", podtest.Exact("c", "cpu=2 memory=4Pi")), "n", noon))
	f.Pods().OnAdd("no pod", false)
	f.Layouts().OnAdd("no layout", false)
	wantHeld(t, book, "n", "")
}

func TestOutcomesAreTold(t *testing.T) {
	book := ledger.New()
	var told []string
	f := NewFeed(book, func(o state.Outcome) { told = append(told, Describe(nil, o)) }, nil)
	f.Begin()
	f.Layout(layoutOf(t, "n", 1))
	f.Pod(bind(four("right"), "n", noon))
	f.Pod(bind(four("wrong"), "n", noon))
	n := book.Snapshot().Node("n")
	seen := slices.Clone(n.Entries)
	wrong := seen[1].Holdings[0]
	wrong.CPUs = idset.Of[idset.CPU](9, 10, 11, 15)
	seen[1].Holdings = []place.Holding{wrong}
	f.Layout(layoutOf(t, "n", 2, seen...))
	want := []string{
		"pod default/right on node n: confirmed: predicted c: cpus 1-4, seen c: cpus 1-4",
		"pod default/wrong on node n: wrong: predicted c: cpus 9-12, seen c: cpus 9-11,15",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestTheMemoryOfWhatEndedIsBounded(t *testing.T) {
	var m memory[string]
	for i := range 3 * maxRemembered {
		m.put(fmt.Sprint(i), "v")
	}
	if n := len(m.young) + len(m.old); n > maxRemembered {
		t.Errorf("%d keys are remembered, the most is %d", n, maxRemembered)
	}
	if v, ok := m.get(fmt.Sprint(3*maxRemembered - maxRemembered/2)); !ok || v != "v" {
		t.Error("one of the latest keys is forgotten")
	}
}
