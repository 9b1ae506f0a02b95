package kube

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// onCPUs returns an entry of a layout for a pod.
func onCPUs(p *v1.Pod, cpus ...idset.CPU) state.Entry {
	return state.Entry{Pod: ID(p), Holdings: []place.Holding{{Container: "c", CPUs: idset.Of(cpus...)}}}
}

// A layout that lists a pod of another node counts only on the node that wrote it. The pod's own node is not affected
// when the pod is updated, nor when the scheduler restarts while the layout exists.
func TestALayoutThatListsAPodOfAnotherNode(t *testing.T) {
	p := bind(four("p"), "n", noon)
	honest := layoutOf(t, "n", 1, onCPUs(p, 1, 2, 3, 4))
	lie := layoutOf(t, "liar", 2, onCPUs(p, 9))
	for name, play := range map[string]func(f *Feed){
		"an update of the pod": func(f *Feed) { f.Begin(); f.Layout(honest); f.Pod(p); f.Layout(lie); f.Pod(start(p)) },
		"the lie comes first":  func(f *Feed) { f.Begin(); f.Layout(lie); f.Layout(honest); f.Pod(p); f.Pod(start(p)) },
		"the pod comes last":   func(f *Feed) { f.Begin(); f.Layout(lie); f.Layout(honest); f.Pod(p) },
		"a new scheduler":      func(f *Feed) { f.Layout(honest); f.Layout(lie); f.Pod(start(p)); f.Begin() },
		"a new scheduler, the lie first": func(f *Feed) {
			f.Layout(lie)
			f.Layout(honest)
			f.Pod(start(p))
			f.Begin()
		},
	} {
		t.Run(name, func(t *testing.T) {
			book := ledger.New()
			play(NewFeed(book, nil, nil))
			wantHeld(t, book, "n", "p=1-4")
			wantHeld(t, book, "liar", "p=9")
			if n := book.Snapshot().Node("n"); n.Doubtful() != "" || len(n.Inexact) > 0 {
				t.Errorf("the pod's own node: %s, %v", n.Doubtful(), n.Inexact)
			}
			want := []state.Inexact{{Code: state.ReportContradicted,
				Message: "the report lists pods that are bound to other nodes (1), such as default/p on node n"}}
			if got := book.Snapshot().Node("liar").Inexact; !slices.Equal(got, want) {
				t.Errorf("the node that lists it: %v, want %v", got, want)
			}
		})
	}
}

// A node that writes all the time is read at a bounded pace, and its last write is never lost. Other nodes are read at
// once.
func TestANodeThatWritesWithoutEnd(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	now := noon
	f.now = func() time.Time { return now }
	type timer struct {
		at time.Time
		do func()
	}
	var timers []timer
	f.later = func(d time.Duration, do func()) { timers = append(timers, timer{now.Add(d), do}) }
	pass := func(d time.Duration) {
		for end := now.Add(d); ; {
			i := slices.IndexFunc(timers, func(x timer) bool { return !x.at.After(end) })
			if i < 0 {
				now = end
				return
			}
			x := timers[i]
			timers = slices.Delete(timers, i, i+1)
			now = x.at
			x.do()
		}
	}
	reports := 0
	book.OnChange(func(node string) {
		if node == "liar" {
			reports++
		}
	})
	version := 1
	write := func(node string, pods ...*v1.Pod) {
		var entries []state.Entry
		for i, p := range pods {
			entries = append(entries, onCPUs(p, idset.CPU(1+i)))
		}
		version++
		f.Layout(layoutOf(t, node, version, entries...))
	}
	const seconds = 60
	for range 80 * seconds {
		write("liar", four(fmt.Sprint("p", version)))
		if version%800 == 0 {
			write("n", four("q"))
			wantHeld(t, book, "n", "q=1")
		}
		pass(time.Second / 80)
	}
	if most := paceBurst + seconds*int(time.Second/paceInterval) + 1; reports > most || reports < seconds {
		t.Errorf("%d of %d layouts are taken, at most %d are meant, and at least one in a second", reports, 80*seconds, most)
	}
	if got := int(f.Paced()); got < 70*seconds {
		t.Errorf("%d of %d layouts count as put off", got, 80*seconds)
	}
	last := four("last")
	write("liar", last)
	pass(2 * paceInterval)
	wantHeld(t, book, "liar", "last=1")
	f.LayoutGone(layoutOf(t, "liar", version+1))
	f.Layout(layoutOf(t, "liar", version+2, onCPUs(four("again"), 3)))
	pass(2 * paceInterval)
	wantHeld(t, book, "liar", "again=3")
	f.LayoutGone(layoutOf(t, "liar", version+3))
	pass(2 * paceInterval)
	wantHeld(t, book, "liar", "unknown")
	pass(paceBurst * paceInterval)
	version += 3
	before := reports
	for range 20 { // as an agent writes while pods come and go, for a while
		write("liar", last)
		pass(200 * time.Millisecond)
	}
	if reports != before+20 {
		t.Errorf("%d of 20 layouts are taken at once", reports-before)
	}
}

// A layout of thousands of containers counts as many events, because reading it takes longer.
func TestLargeLayoutsAreReadLessOften(t *testing.T) {
	f := begun(ledger.New())
	now := noon
	f.now = func() time.Time { return now }
	var timers []func()
	f.later = func(_ time.Duration, do func()) { timers = append(timers, do) }
	large := func(version int) *v1alpha1.NodeLayout {
		l := layoutOf(t, "n", version)
		for i := range 8 {
			p := v1alpha1.PodHoldings{Namespace: "default", Name: fmt.Sprint("p", i), UID: fmt.Sprint("uid-", i)}
			for k := range 1000 {
				p.Containers = append(p.Containers, v1alpha1.ContainerHolding{Name: fmt.Sprint("c", k), CPUs: "1"})
			}
			l.Holdings = append(l.Holdings, p)
		}
		return l
	}
	for version := range 10 {
		f.Layout(large(1 + version))
	}
	if got := f.Paced(); got != 7 {
		t.Errorf("%d of 10 layouts of 8,000 containers are put off, want 7", got)
	}
	for wait := 0; len(timers) > 0; wait++ {
		if wait > 20 {
			t.Fatal("the last layout is never taken")
		}
		now = now.Add(paceInterval)
		next := timers
		timers = nil
		for _, do := range next {
			do()
		}
	}
	if n := f.book.Snapshot().Node("n"); n == nil || len(n.Entries) != 8 {
		t.Error("the last layout is lost")
	}
}

// A pod that claims to stand for a static pod holds nothing before its kubelet has started it: no kubelet runs one that
// a user made, and a finalizer keeps it from being deleted.
func TestForgedMirrorPodsHoldNothing(t *testing.T) {
	mirror := bind(four("p"), "n", noon)
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "uid-of-another"}
	leaving := mirror.DeepCopy()
	leaving.DeletionTimestamp, leaving.Finalizers = ptr.To(metav1.NewTime(noon)), []string{"example.com/kept"}
	for name, play := range map[string]func(f *Feed){
		"it is new":                 func(f *Feed) { f.Begin(); f.Pod(mirror) },
		"its kubelet deletes it":    func(f *Feed) { f.Begin(); f.Pod(mirror); f.Pod(leaving) },
		"a new scheduler":           func(f *Feed) { f.Pod(mirror); f.Begin() },
		"a new scheduler, deleting": func(f *Feed) { f.Pod(leaving); f.Begin() },
	} {
		t.Run(name, func(t *testing.T) {
			book := ledger.New()
			f := NewFeed(book, nil, nil)
			f.Layout(layoutOf(t, "n", 1))
			play(f)
			wantHeld(t, book, "n", "")
			if n := book.Snapshot().Node("n"); n.Doubtful() != "" || len(n.Others) > 0 {
				t.Errorf("the node: %q, %d other states", n.Doubtful(), len(n.Others))
			}
			f.Pod(start(mirror))
			wantHeld(t, book, "n", "p=1-4")
		})
	}
}
