package ledger

import (
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// A scheduler that has just started finds pods on an estimated node with known requests and unknown places. The state
// of the node without one of them is known as far as the amounts show it.
func TestWithoutAPodAtAnUnknownPlace(t *testing.T) {
	whole := len(amounts(t, 0, 0, nil).Machine.NUMAs()[0].CPUs.Minus(layout(t).Rules.CPU.Reserved).List())
	all, much := int64(whole), int64(whole-2)
	for name, c := range map[string]struct {
		pods      []int64 // CPUs and GiB of the pods that are there
		held      [2]int
		pod       int64 // fits without the first of them
		fits, all bool  // without the first; without any
	}{
		"the only one":                                        {[]int64{4}, [2]int{4, 1}, all, true, true},
		"one of two, on either numa":                          {[]int64{4, 4}, [2]int{4, 4}, all, true, true},
		"one of two that are on one numa":                     {[]int64{4, 4}, [2]int{8, 2}, all, false, true},
		"one that may be on either NUMA node, as one more is": {[]int64{2, 4}, [2]int{4, 2}, all, false, true},
		"somebody else is there":                              {[]int64{4}, [2]int{7, 3}, much, false, false},
		"more than any numa says":                             {[]int64{9}, [2]int{6, 3}, much, false, false},
	} {
		b := New()
		counts := map[string]bool{}
		for i, n := range c.pods {
			b.Recover("n", id(i), square(n))
			counts[id(i).UID] = true
		}
		b.Report("n", amounts(t, c.held[0], c.held[1], counts))
		n := b.Snapshot().Node("n")
		if n.Fits(square(c.pod)) {
			t.Fatalf("%s: the pod fits anyway", name)
		}
		if got := n.Without(id(0).UID).Fits(square(c.pod)); got != c.fits {
			t.Errorf("%s: fits without the first: %v", name, got)
		}
		var uids []string
		for i := range c.pods {
			uids = append(uids, id(i).UID)
			if !n.Unplaced(id(i).UID) {
				t.Errorf("%s: the place of pod %d counts as known", name, i)
			}
		}
		if got := n.Without(uids...).Fits(square(c.pod)); got != c.all {
			t.Errorf("%s: fits without them: %v", name, got)
		}
		if again := n.Without(); again.Fits(square(c.pod)) || again.Unsettled {
			t.Errorf("%s: Without without arguments changes the node", name)
		}
	}
}

// What a pod held while an estimated node was still exact is unknown, so its end gives nothing back.
func TestWithoutAPodWithUnknownHoldings(t *testing.T) {
	b := New()
	l := layout(t)
	v := place.Place(place.NewUsage(l.Machine, l.Rules), square(4))
	l.Entries = []state.Entry{{Pod: id(0), Holdings: v.Holdings}}
	b.Report("n", l)
	b.Report("n", amounts(t, 4, 0, map[string]bool{id(0).UID: true}))
	if n := b.Snapshot().Node("n").Without(id(0).UID); !n.Unsettled {
		t.Error("the holdings of the pod count as known")
	}
}
