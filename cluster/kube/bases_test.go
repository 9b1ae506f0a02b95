package kube

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// event is what a watch shows of a layout or a base: its object, or that it is gone.
type event struct {
	layout *v1alpha1.NodeLayout
	base   *v1alpha1.LayoutBase
	gone   bool
}

// writers are an agent that writes layouts and bases of one node, as package agent does, and others who write them. The
// holdings of the k-th state of the node are one pod named k.
type writers struct {
	t        *testing.T
	version  int
	sequence int64
	state    int
	agent    string
	base     *v1alpha1.LayoutBase
	layout   *v1alpha1.NodeLayout
	uid      int
	streams  [2][]event // of layouts, and of bases
}

func (w *writers) seen(of int, e event) { w.streams[of] = append(w.streams[of], e) }

func (w *writers) stored() string {
	w.version++
	return strconv.Itoa(w.version)
}

// report writes the next state of the node, with a new base if that is asked for or there is none.
func (w *writers) report(renew bool) {
	w.state++
	l := layoutOf(w.t, "n", 0, state.Entry{Pod: state.PodID{UID: fmt.Sprint("u", w.state), Namespace: "default",
		Name: strconv.Itoa(w.state)}, Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](1)}}})
	w.sequence++
	l.Agent.ID, l.Sequence = w.agent, w.sequence
	if w.base == nil || renew || w.base.Agent.ID != w.agent {
		w.base = v1alpha1.BaseOf(l)
		w.base.ResourceVersion = w.stored()
		w.seen(1, event{base: w.base})
		w.sequence++
		l.Sequence = w.sequence
	}
	d, ok := l.Since(w.base)
	if !ok {
		w.t.Fatal("no difference")
	}
	if w.layout == nil {
		w.uid++
	}
	d.UID, d.ResourceVersion = types.UID(fmt.Sprint("layout", w.uid)), w.stored()
	w.layout = d
	w.seen(0, event{layout: d})
}

// conditions writes the status of the layout, as the scheduler does.
func (w *writers) conditions() {
	if w.layout == nil {
		return
	}
	l := w.layout.DeepCopy()
	l.ResourceVersion = w.stored()
	w.layout = l
	w.seen(0, event{layout: l})
}

// unlink deletes the base, which the agent writes again with its next report.
func (w *writers) unlink() {
	if w.base == nil {
		return
	}
	b := w.base.DeepCopy()
	b.ResourceVersion = w.stored()
	w.base = nil
	w.seen(1, event{base: b, gone: true})
}

func (w *writers) deleted() {
	if w.layout == nil {
		return
	}
	l := w.layout.DeepCopy()
	l.ResourceVersion = w.stored()
	w.layout = nil
	w.seen(0, event{layout: l, gone: true})
}

// Whatever the agent and others write, in whatever order the two watches show it and at whatever pace, a reader never
// goes back to an earlier state of the node, and has the last one in the end. An agent may be killed after it has
// written a base. Hints repeat events of layouts at any time.
func TestLayoutsAndBasesArriveInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &writers{t: t, agent: "a0", sequence: 1 << 20}
		for range rapid.IntRange(1, 12).Draw(rt, "writes") {
			before := w.layout
			switch rapid.IntRange(0, 11).Draw(rt, "write") {
			case 0:
				w.conditions()
			case 1:
				w.unlink()
			case 2:
				w.deleted()
			case 3:
				w.agent, w.sequence = w.agent+"x", w.sequence+1<<20
			case 10, 11: // killed after the base
				w.report(true)
				w.streams[0] = w.streams[0][:len(w.streams[0])-1]
				w.layout = before
				w.agent, w.sequence = w.agent+"x", w.sequence+1<<20
			case 4, 5:
				w.report(true)
			default:
				w.report(false)
			}
		}
		w.report(false)
		book := ledger.New()
		f, c := timed(book)
		f.now = func() time.Time { return noon.Add(c.now) }
		f.begun = rapid.Bool().Draw(rt, "begun")
		if rapid.Bool().Draw(rt, "busy") {
			f.atPace("n", paceBurst-rapid.IntRange(0, 3).Draw(rt, "left"), func() {})
		}
		at, last, shown := [2]int{}, 0, ""
		deliver := func(e event) {
			switch {
			case e.base != nil && e.gone:
				f.BaseGone(v1alpha1.NewBase(e.base))
			case e.base != nil:
				f.Base(v1alpha1.NewBase(e.base))
			case e.gone:
				f.LayoutGone(e.layout)
			default:
				f.Layout(e.layout)
			}
			if shown = held(book, "n"); shown == "unknown" || shown == "" {
				return
			}
			name, _, _ := strings.Cut(shown, "=")
			k, err := strconv.Atoi(name)
			if err != nil || k < last {
				rt.Fatalf("%q after state %d", shown, last)
			}
			last = k
		}
		for at[0] < len(w.streams[0]) || at[1] < len(w.streams[1]) {
			s := rapid.IntRange(0, 3).Draw(rt, "stream")
			switch {
			case s == 3:
				c.pass(time.Duration(rapid.IntRange(0, 12000).Draw(rt, "ms")) * time.Millisecond)
				deliver(event{gone: true, layout: &v1alpha1.NodeLayout{ObjectMeta: metav1.ObjectMeta{Name: "m"}}})
			case s < 2 && at[s] < len(w.streams[s]):
				deliver(w.streams[s][at[s]])
				at[s]++
			case s == 2 && len(w.streams[0]) > 0:
				hint := rapid.IntRange(0, min(at[0], len(w.streams[0])-1)).Draw(rt, "hint")
				deliver(w.streams[0][hint])
			}
		}
		if !f.begun {
			f.Begin()
		}
		c.pass(4 * baseGrace)
		if want := fmt.Sprintf("%d=1", w.state); held(book, "n") != want {
			rt.Fatalf("in the end %q is held, want %q (%s)", held(book, "n"), want, f.Problem("n"))
		}
	})
}

// A layout whose base was deleted is of no use to a reader that has not seen the base. The node is unknown then, and
// its problem names the reason; the next base ends that.
func TestALayoutWhoseBaseIsMissing(t *testing.T) {
	w := &writers{t: t, agent: "a"}
	w.report(true)
	w.report(false)
	book := ledger.New()
	f, c := timed(book)
	var woken []string
	f.OnFreed(func(node string) { woken = append(woken, node) })
	f.Layout(w.layout)
	if p := f.Problem("n"); !strings.Contains(p, "LayoutBase is missing") {
		t.Errorf("at first the problem is %q", p)
	}
	c.pass(baseGrace)
	wantHeld(t, book, "n", "unknown")
	if p := f.Problem("n"); !strings.Contains(p, "LayoutBase is missing") {
		t.Errorf("later the problem is %q", p)
	}
	w.report(true)
	f.Layout(w.layout)
	f.Base(v1alpha1.NewBase(w.base))
	wantHeld(t, book, "n", "3=1")
	if p := f.Problem("n"); p != "" {
		t.Errorf("in the end the problem is %q", p)
	}
	c.pass(0)
	if len(woken) == 0 || woken[len(woken)-1] != "n" {
		t.Errorf("woken are %v: hints saw the layout before its base", woken)
	}
}

// A layout that was deleted while it waited for its base does not come back with the base.
func TestADeletedLayoutDoesNotComeBackWithItsBase(t *testing.T) {
	w := &writers{t: t, agent: "a"}
	w.report(true)
	book := ledger.New()
	f, _ := timed(book)
	f.Layout(w.layout)
	w.deleted()
	f.LayoutGone(w.streams[0][1].layout)
	f.Base(v1alpha1.NewBase(w.base))
	wantHeld(t, book, "n", "unknown")
}

// A base that cannot be read makes the layouts that continue it unreadable, with its fault, and no others.
func TestABaseThatCannotBeRead(t *testing.T) {
	w := &writers{t: t, agent: "a"}
	w.report(true)
	bad := w.base.DeepCopy()
	bad.Machine.NUMAs = nil
	book := ledger.New()
	f, _ := timed(book)
	f.Base(v1alpha1.NewBase(bad))
	f.Layout(w.layout)
	wantHeld(t, book, "n", "unknown")
	if p := f.Problem("n"); !strings.Contains(p, "base: layout of node \"n\": machine: numas") {
		t.Errorf("the problem is %q", p)
	}
	w.report(true)
	f.Base(v1alpha1.NewBase(w.base))
	f.Layout(w.layout)
	wantHeld(t, book, "n", "2=1")
}

// A base that arrives later than baseGrace after its layout makes the node known, though no further layout comes.
func TestABaseThatArrivesLate(t *testing.T) {
	w := &writers{t: t, agent: "a"}
	w.report(true)
	book := ledger.New()
	f, c := timed(book)
	f.Layout(w.layout)
	c.pass(baseGrace + time.Second)
	f.Base(v1alpha1.NewBase(w.base))
	c.pass(time.Hour)
	wantHeld(t, book, "n", "1=1")
	if p := f.Problem("n"); p != "" {
		t.Errorf("the problem is %q, though the base is there", p)
	}
}

// At the start of a scheduler the list of bases, which is large, may take longer than baseGrace. No layout is rejected
// before the lists are in.
func TestAListOfBasesThatTakesLong(t *testing.T) {
	w := &writers{t: t, agent: "a"}
	w.report(true)
	book := ledger.New()
	c := &clock{}
	refused := 0
	f := NewFeed(book, nil, func(_ string, err error) {
		if err != nil {
			refused++
		}
	})
	f.later = c.later
	f.Layout(w.layout)
	c.pass(baseGrace + time.Second)
	f.Base(v1alpha1.NewBase(w.base))
	f.Begin()
	c.pass(time.Hour)
	wantHeld(t, book, "n", "1=1")
	if refused > 0 {
		t.Errorf("%d layouts were refused while the scheduler was listing", refused)
	}
}

// A layout waits for its base, and a later one for its pace. The base comes: the later layout is not lost.
func TestABaseDoesNotReplaceALaterLayout(t *testing.T) {
	w := &writers{t: t, agent: "a"}
	w.report(true)
	book := ledger.New()
	f, c := timed(book)
	now := noon
	f.now = func() time.Time { return now }
	f.atPace("n", paceBurst-1, func() {}) // the node has been busy
	f.Layout(w.layout)                    // waits for the base
	w.report(false)
	f.Layout(w.layout) // waits for its pace
	f.Base(v1alpha1.NewBase(w.base))
	for range 20 {
		now = now.Add(paceInterval)
		c.pass(paceInterval)
	}
	wantHeld(t, book, "n", "2=1")
}

// Two layouts that are older than the base share its memory, and do not write into it.
func TestLayoutsOfOneBaseDoNotShareReasons(t *testing.T) {
	w := &writers{t: t, agent: "a"}
	w.report(true)
	old := w.layout
	w.report(true)
	b := w.base.DeepCopy()
	b.Inexact = nil
	for i := range 2 {
		b.Inexact = append(b.Inexact, v1alpha1.Inexact{Code: fmt.Sprint("some-reason-", i), Message: "because"})
	}
	b.Holdings = append(b.Holdings, v1alpha1.PodHoldings{Namespace: "default", Name: "x", UID: "x"},
		v1alpha1.PodHoldings{Namespace: "default", Name: "y", UID: "y"})
	book := ledger.New()
	f, _ := timed(book)
	x, y := bind(four("x"), "other", noon), bind(four("y"), "third", noon)
	x.UID, y.UID = "x", "y"
	f.Pod(x)
	f.Base(v1alpha1.NewBase(b))
	f.Layout(old)
	first := book.Snapshot().Node("n").Inexact
	text := fmt.Sprint(first)
	f.PodGone(x)
	f.Pod(y)
	again := old.DeepCopy()
	again.ResourceVersion = w.stored()
	f.Layout(again)
	if now := fmt.Sprint(first); now != text {
		t.Errorf("an earlier snapshot changed from\n%s to\n%s", text, now)
	}
}

// What a small layout costs is what its base has.
func TestASmallLayoutOnALargeBaseIsPaced(t *testing.T) {
	f := begun(ledger.New())
	now := noon
	f.now = func() time.Time { return now }
	f.later = func(time.Duration, func()) {}
	l := layoutOf(t, "n", 1)
	l.Agent.ID = "a"
	for i := range 2000 {
		p := v1alpha1.PodHoldings{Namespace: "default", Name: fmt.Sprint("p", i), UID: fmt.Sprint("uid-", i)}
		for k := range 4 {
			p.Containers = append(p.Containers, v1alpha1.ContainerHolding{Name: fmt.Sprint("c", k), CPUs: "1"})
		}
		l.Holdings = append(l.Holdings, p)
	}
	l.Sequence = 1
	b := v1alpha1.BaseOf(l)
	b.ResourceVersion = "1"
	f.Base(v1alpha1.NewBase(b))
	for i := range 50 {
		d := &v1alpha1.NodeLayout{Sequence: int64(2 + i), Base: 1}
		d.Name, d.ResourceVersion, d.Agent.ID = "n", fmt.Sprint(2+i), "a"
		d.Ended = []string{fmt.Sprint("uid-", i)}
		f.Layout(d)
	}
	if got := f.Paced(); got == 0 {
		t.Errorf("%d of 50 layouts of 8,000 containers each are put off, want about 47", got)
	}
}
