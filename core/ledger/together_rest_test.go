package ledger

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Members of a gang get their turns at once only if the members after them fit whatever comes first. The node has two
// NUMA nodes of 30 CPUs. In their order, members with 6 and 24 CPUs fill one, and those with 17 and 13 the other. If
// the one with 17 came first, the one with 13 would not fit.
func TestMembersLeaveTheRestOfTheirGangItsPlace(t *testing.T) {
	b := New()
	b.Report("n", layout(t))
	var members []Member
	sizes := []int64{6, 24, 17, 13}
	for i, n := range sizes {
		if v, ok := b.Reserve("n", id(i), pod(n, 1), place.Demand{}); !ok || !v.Fits() {
			t.Fatalf("member %d is refused: %v", i, v.Reasons)
		}
		members = append(members, Member{UID: id(i).UID})
	}
	if r, wait, err := b.Turns(members, false); r.UID != "" || wait != nil || err != nil {
		t.Fatalf("the gang has no turns: %+v, %+v, %v", r, wait, err)
	}
	var entries []state.Entry
	for range sizes { // the node admits those that have their turns, the last one first
		var admitted []int
		for i := len(sizes) - 1; i >= 0; i-- {
			if slices.ContainsFunc(entries, func(e state.Entry) bool { return e.Pod == id(i) }) {
				continue
			}
			v, wait, err := b.Turn(id(i).UID, 0)
			if err != nil || wait == nil && !v.Fits() {
				t.Fatalf("member %d does not fit: %v, %v", i, v.Reasons, err)
			}
			if wait == nil {
				admitted = append(admitted, i)
			}
		}
		if len(admitted) == 0 {
			break
		}
		u := place.NewUsage(layout(t).Machine, layout(t).Rules).Hold(state.Holdings(entries)...)
		for _, i := range admitted {
			v := place.Place(u, pod(sizes[i], 1))
			if !v.Fits() {
				t.Fatalf("the node refuses member %d: %v", i, v.Reasons)
			}
			u = u.Hold(v.Holdings...)
			entries = append(entries, state.Entry{Pod: id(i), Holdings: v.Holdings})
			b.Admitted(id(i).UID)
		}
		b.Report("n", layout(t, entries...))
	}
	if len(entries) < len(sizes) {
		t.Errorf("%d of %d members run", len(entries), len(sizes))
	}
}
