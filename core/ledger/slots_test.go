package ledger

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// For callers that store data by slot and version: a version never stands for two states, and equal rosters have the
// same nodes in the same slots.
func TestASlotAndAVersionStandForAState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := New()
		type at struct {
			slot  int
			since uint64
		}
		states, rosters := map[at]*state.Node{}, map[Roster][]string{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			name := fmt.Sprint("n", rapid.IntRange(0, 80).Draw(rt, "node"))
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0:
				b.Forget(name)
			case 1:
				b.Reserve(name, id(rapid.IntRange(0, 9).Draw(rt, "pod")), pod(2, 1), place.Demand{})
			default:
				b.Report(name, layout(t))
			}
			s := b.Snapshot()
			var list []string
			for slot := range s.Slots() {
				n, since := s.At(slot)
				if old, ok := states[at{slot, since}]; ok && old != n || since != s.Since(slot) {
					rt.Fatalf("slot %d has two states of version %d", slot, since)
				}
				states[at{slot, since}] = n
				if n == nil {
					continue
				}
				list = append(list, fmt.Sprint(slot, " ", n.Name))
				if got, ok := s.Slot(n.Name); !ok || got != slot {
					rt.Fatalf("node %s is in slot %d, and found in slot %d", n.Name, slot, got)
				}
			}
			if old, ok := rosters[s.Roster()]; ok && !slices.Equal(old, list) {
				rt.Fatalf("one roster stands for %v and for %v", old, list)
			}
			rosters[s.Roster()] = list
			set := NewIndex(pod(2, 1), place.Demand{}).Fitting(s)
			from := rapid.IntRange(0, s.Slots()).Draw(rt, "from")
			var want []int
			for slot := range s.Slots() {
				if n, _ := s.At(slot); set.In(slot) != (n != nil && n.Fits(pod(2, 1))) {
					rt.Fatalf("slot %d is in the set: %v", slot, set.In(slot))
				}
				if slot >= from && set.In(slot) {
					want = append(want, slot)
				}
			}
			if got := slices.Collect(set.From(from)); !slices.Equal(got, want) {
				rt.Fatalf("slots from %d are %v, want %v", from, got, want)
			}
		}
	})
}
