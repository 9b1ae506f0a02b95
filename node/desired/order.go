package desired

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/core/state"
)

// order ranks pods by when they were first seen to hold something. The kubelet does not record in which order it
// admitted its pods; this order substitutes for it.
type order struct {
	rank map[string]int // by pod UID; never changed
	next int
}

// with returns the order with further pods: those that have no rank yet follow all others.
func (o order) with(uids ...string) order {
	if len(uids) == 0 {
		return o
	}
	out := order{maps.Clone(o.rank), o.next}
	if out.rank == nil {
		out.rank = map[string]int{}
	}
	for _, uid := range uids {
		if _, ok := out.rank[uid]; !ok {
			out.rank[uid] = out.next
			out.next++
		}
	}
	return out
}

// podTimes returns when a pod was started and created; zero times if that is unknown.
type podTimes func(state.PodID) (started, created time.Time)

// sort sorts entries by rank, and returns an order with these pods only. It gives ranks to pods without one: after
// all others, by the times of their start and creation, then by name.
func (o order) sort(entries []state.Entry, when podTimes) order {
	var fresh []state.PodID
	here := make(map[string]bool, len(entries))
	for _, e := range entries {
		here[e.Pod.UID] = true
		if _, ok := o.rank[e.Pod.UID]; !ok {
			fresh = append(fresh, e.Pod)
		}
	}
	slices.SortFunc(fresh, func(a, b state.PodID) int {
		startA, madeA := when(a)
		startB, madeB := when(b)
		return cmp.Or(compareTimes(startA, startB), compareTimes(madeA, madeB), strings.Compare(a.String(), b.String()))
	})
	out := order{map[string]int{}, o.next}
	for uid, n := range o.rank {
		if here[uid] {
			out.rank[uid] = n
		}
	}
	for _, id := range fresh {
		out.rank[id.UID] = out.next
		out.next++
	}
	slices.SortFunc(entries, func(a, b state.Entry) int {
		return cmp.Compare(out.rank[a.Pod.UID], out.rank[b.Pod.UID])
	})
	return out
}

// compareTimes compares two times, and puts unknown times last. A pod with an unknown time is so new that the API
// server has not reported it.
func compareTimes(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}
