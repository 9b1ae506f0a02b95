package kube

import (
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// A forged sequence, which no honest agent exceeds, blocks the honest agent only for seconds, even if that agent never
// saw the forged layout.
func TestForgedSequencesDelayTheAgentOnly(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	var due []func()
	f.later = func(after time.Duration, do func()) {
		if after == lateGrace {
			due = append(due, do)
		}
	}
	write := func(version int, sequence int64, cpu int) {
		l := layoutOf(t, "n", version, state.Entry{Pod: ID(four("x")),
			Holdings: []place.Holding{{Container: "c", CPUs: idset.Of(idset.CPU(cpu))}}})
		l.UID, l.Sequence = "layout", sequence
		f.Layout(l)
	}
	write(1, v1alpha1.MaxSequence, 1)
	write(2, 0, 2) // the forger covers its tracks
	write(3, 1<<20, 3)
	write(4, 1<<20+1, 4)
	wantHeld(t, book, "n", "x=1")
	if len(due) != 1 {
		t.Fatalf("%d timers run, want one for all that came in late", len(due))
	}
	due[0]()
	wantHeld(t, book, "n", "x=4")
	write(5, 1<<20+2, 5)
	wantHeld(t, book, "n", "x=5")

	// A write that arrives late, and that its agent corrects, changes nothing.
	write(6, 1<<20, 6)
	wantHeld(t, book, "n", "x=5")
	write(7, 1<<20+3, 7)
	wantHeld(t, book, "n", "x=7")
	for _, do := range due {
		do()
	}
	wantHeld(t, book, "n", "x=7")
	f.LayoutGone(layoutOf(t, "n", 8))
	for _, do := range due {
		do()
	}
	wantHeld(t, book, "n", "unknown")
}

// A layout is deleted, written again and deleted again. A hint that repeats the first deletion, and then the layout
// between the two, brings nothing back.
func TestAnOldDeletionOfALayoutHasNoEffect(t *testing.T) {
	book := ledger.New()
	f := begun(book)
	f.Layout(layoutOf(t, "n", 1))
	f.LayoutGone(layoutOf(t, "n", 2))
	f.Layout(layoutOf(t, "n", 3))
	f.LayoutGone(layoutOf(t, "n", 4))
	f.LayoutGone(layoutOf(t, "n", 2))
	f.Layout(layoutOf(t, "n", 3))
	wantHeld(t, book, "n", "unknown")
}

// A report contains a pod that is never seen. Then a pod ends, another one of its shape comes, and the exporter, which
// finds the same amounts, writes nothing.
func TestAPodThatComesInThePlaceOfAnotherIsCounted(t *testing.T) {
	book := ledger.New()
	f, c := timed(book)
	full := [3]int64{}
	f.Topology(wide(1, [3]int64{16, 32, 8}, full))
	first := member("web-1", "a", "cpu=6 memory=7Gi acme.com/nic=1")
	own(t, book, f, first)
	own(t, book, f, member("web-2", "b", "cpu=2 memory=1Gi"))
	f.Topology(wide(2, [3]int64{5, 23, 7}, full)) // 3 CPUs and 1Gi are the hidden pod's
	c.pass(settlePeriod)
	f.PodGone(deleting(start(first)))
	own(t, book, f, member("web-1", "c", "cpu=6 memory=7Gi acme.com/nic=1"))
	c.pass(settlePeriod)
	if !fits(t, book, "cpu=5 memory=5Gi") || fits(t, book, "cpu=6 memory=5Gi") {
		t.Errorf("5 CPUs are free: %s, doubt %q", amounts(book, "n"), book.Snapshot().Node("n").Doubtful())
	}
}
