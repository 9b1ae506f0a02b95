package sched

import (
	"fmt"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// What a node says is remembered until it changes, whatever happens elsewhere; the reasons of many nodes are kept
// once.
func TestWhatNodesSayIsRemembered(t *testing.T) {
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
	asked := func() (said int, s *state) {
		s, _ = read(cycle(t, p, pod))
		for slot := range s.snap.Slots() {
			_, since := s.snap.At(slot)
			if _, ok := s.answers.cell(slot).read(since); ok {
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
			no.texts[0] != `cannot align container "c" (wants 8 cpu on one NUMA node; best NUMA node has 4 free)` {
			t.Fatalf("slot %d says %+v", slot, no)
		}
	}
	if n := len(s.answers.list()); n != 1 {
		t.Errorf("%d reasons are kept of nodes that all have the same", n)
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

// Kinds of pods beyond the bound cost time, and no memory: those that were asked for longest ago are forgotten.
func TestKindsOfPodsAreForgotten(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	known := cpus("known", 4)
	for i := range 2 * maxKinds {
		fits(t, filter(t, p, cycle(t, p, podOf(fmt.Sprint("p", i), fmt.Sprintf("cpu=1 memory=%dMi", i+1))), "n"))
		fits(t, filter(t, p, cycle(t, p, known), "n"))
	}
	if n := len(p.answers.kinds); n != maxKinds {
		t.Errorf("%d kinds are remembered, want %d", n, maxKinds)
	}
	s, _ := read(cycle(t, p, known))
	if p.answers.kinds[question{p, s.key, s.demand, s.strategy.Type}] == nil {
		t.Error("the kind that always comes is forgotten")
	}
}
