package plugin

import (
	"fmt"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// A node's answers are cached until the node changes, whatever happens on other nodes.
func TestAnswersOfNodesAreCached(t *testing.T) {
	p := newPlugin(t, refuse)
	for i := range 200 {
		p.Feed.Layout(
			layout(
				t,
				fmt.Sprintf("n%d", i),
				two,
				place.SingleNUMA,
				i+1,
				holding(cpus(fmt.Sprintf("x%d", i), 12), "0-11"),
				holding(cpus(fmt.Sprintf("y%d", i), 12), "16-27"),
			),
		)
	}
	pod := cpus("p", 8)
	asked := func() (said int, s *podState) {
		s, _ = read(cycle(t, p, pod))
		for slot := range s.snap.Slots() {
			if s.answers.Has(s.snap, slot) {
				said++
			}
		}
		return said, s
	}
	said, s := asked()
	if said != 0 {
		t.Errorf("%d nodes have said something before they were asked", said)
	}
	for slot := range s.snap.Slots() {
		if _, no := p.answer(s, slot); no == nil ||
			no.Texts[0] != `cannot align container "c" (wants 8 cpu on one NUMA node; best NUMA node has 4 free)` {
			t.Fatalf("slot %d says %+v", slot, no)
		}
	}
	p.Feed.Layout(layout(t, "n7", two, place.SingleNUMA, 1000))
	if said, s = asked(); said != 199 {
		t.Errorf("%d of 200 nodes are not asked again, one has changed", said)
	}
	if slot, _ := s.snap.Slot("n7"); true {
		if cost, no := p.answer(s, slot); no != nil || cost <= 0 {
			t.Errorf("the node that is free now says %d, %+v", cost, no)
		}
	}
}
