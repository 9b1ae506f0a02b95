package kube

import (
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// A forged sequence, which no honest agent exceeds, keeps the honest agent out for seconds only, even if that agent
// never saw the forged layout.
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
		l := layoutOf(t, "n", version, ledger.Entry{Pod: ID(four("x")),
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
