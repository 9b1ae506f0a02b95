package plugin

import (
	"testing"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// While evictions for a group are tried, pods are judged and reserved as if others were gone, and the ledger stays as
// it is. A cycle of that time leaves nothing behind.
func TestTriedEvictionsChangeNothing(t *testing.T) {
	book := ledger.New()
	ready := make(chan struct{})
	close(ready)
	shared := &Shared{Book: book, Feed: kube.NewFeed(book, nil, nil), Ready: ready}
	shared.Feed.Begin()
	p := pluginOf(t, shared, refuse)
	there := cpus("there", 12)
	shared.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(there, "0-11")))
	before := book.Snapshot().Node("n")
	const small = `cannot align container "c" (wants 12 cpu; node has 8 free)`

	gone, back, end := victims{p}.Suppose()
	refused := cycle(t, p, cpus("a", 12))
	fits(t, filter(t, p, refused, "n")) // on the NUMA node that is free
	if s := p.Reserve(t.Context(), refused, cpus("a", 12), "n"); !s.IsSuccess() {
		t.Fatal(s)
	}
	second := cycle(t, p, cpus("b", 12))
	says(t, filter(t, p, second, "n"), fwk.Unschedulable, small)
	gone("n", string(there.UID))
	third := cycle(t, p, cpus("b", 12))
	fits(t, filter(t, p, third, "n"))
	if s := p.Reserve(t.Context(), third, cpus("b", 12), "n"); !s.IsSuccess() {
		t.Fatal(s)
	}
	says(t, filter(t, p, cycle(t, p, cpus("c", 12)), "n"), fwk.Unschedulable, small)
	p.Unreserve(t.Context(), third, cpus("b", 12), "n")
	fits(t, filter(t, p, cycle(t, p, cpus("c", 12)), "n"))
	back("n", string(there.UID))
	says(t, filter(t, p, cycle(t, p, cpus("c", 12)), "n"), fwk.Unschedulable, small)
	end()

	if now := book.Snapshot().Node("n"); now != before {
		t.Errorf("the ledger has %+v, and had %+v", now.Entries, before.Entries)
	}
	p.Unreserve(t.Context(), refused, cpus("a", 12), "n")
	cs := cycle(t, p, cpus("d", 12))
	if s := p.Reserve(t.Context(), cs, cpus("d", 12), "n"); !s.IsSuccess() || len(book.Snapshot().Node("n").Entries) != 2 {
		t.Errorf("a pod is reserved afterwards with %v", s)
	}
}
