package plugin

import (
	"sync"
	"testing"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// Two profiles choose the last NUMA node for a pod each, and reserve it at the same moment: one of them gets it, and
// the other one's pod is refused.
func TestTwoProfilesReserveTheLastNUMAAtOnce(t *testing.T) {
	for range 50 {
		book := ledger.New()
		ready := make(chan struct{})
		close(ready)
		shared := &Shared{Book: book, Feed: kube.NewFeed(book, nil, nil), Ready: ready}
		shared.Feed.Begin()
		profiles := []*Plugin{pluginOf(t, shared, refuse), pluginOf(t, shared, refuse)}
		shared.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1, holding(cpus("there", 12), "0-11")))
		pods := []string{"a", "b"}
		cycles := make([]fwk.CycleState, len(pods))
		for i, name := range pods {
			cycles[i] = cycle(t, profiles[i], cpus(name, 12))
			fits(t, filter(t, profiles[i], cycles[i], "n"))
		}
		got := make([]*fwk.Status, len(pods))
		var both sync.WaitGroup
		for i, name := range pods {
			both.Go(func() { got[i] = profiles[i].Reserve(t.Context(), cycles[i], cpus(name, 12), "n") })
		}
		both.Wait()
		if got[0].IsSuccess() == got[1].IsSuccess() {
			t.Fatalf("both or none: %v and %v", got[0], got[1])
		}
		for i, s := range got {
			if s.IsSuccess() {
				continue
			}
			says(t, s, fwk.Unschedulable, `cannot align container "c" (wants 12 cpu; node has 8 free)`)
			profiles[i].Unreserve(t.Context(), cycles[i], cpus(pods[i], 12), "n")
		}
		if n := book.Snapshot().Node("n"); len(n.Entries) != 2 {
			t.Fatalf("the book has %+v", n.Entries)
		}
	}
}
