package ledger

import (
	"fmt"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// BenchmarkEffort has what the scheduler does for every pod, among 1,000 nodes. go run ./test/effort compares the
// statements that it executes, and what it allocates, with core/testdata/baseline.txt.
func BenchmarkEffort(b *testing.B) {
	const nodes = 1000
	p := pod(16, 16)
	var pool topo.Pool
	l := halfFull(b, &pool)
	full := func() *Book {
		book := New()
		for i := range nodes {
			book.Report(fmt.Sprintf("node-%05d", i), own(l, i))
		}
		return book
	}
	for _, c := range []struct {
		name string
		once func() func()
	}{
		{"index:nothing-changed", func() func() {
			s, x := full().Snapshot(), NewIndex(p, place.Demand{})
			return func() { x.Fitting(s) }
		}},
		{"index:first", func() func() {
			s := full().Snapshot()
			return func() { NewIndex(p, place.Demand{}).Fitting(s) }
		}},
		{"reserve,ask,unreserve", func() func() {
			book, x := full(), NewIndex(p, place.Demand{})
			id := state.PodID{UID: "assumed"}
			return func() {
				book.Reserve("node-00042", id, p, place.Demand{})
				x.Fitting(book.Snapshot())
				book.Unreserve(id.UID)
			}
		}},
		{"report", func() func() {
			book, again := full(), own(l, 3)
			return func() { book.Report("node-00003", again) }
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			once := c.once()
			once() // what is kept for the next time is there
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}
