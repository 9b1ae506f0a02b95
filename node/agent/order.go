package agent

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/core/ledger"
)

// order keeps the order in which pods were first seen to hold something: the agent's belief of the
// order in which the kubelet admitted them, which nobody records.
type order struct {
	rank map[string]int // by pod UID
	next int
}

func newOrder() *order { return &order{rank: map[string]int{}} }

// seen ranks a pod after all others, if it has no rank yet.
func (o *order) seen(uid string) {
	if _, ok := o.rank[uid]; !ok {
		o.rank[uid] = o.next
		o.next++
	}
}

// times says when a pod was started and created; zero times where that is not known.
type times func(ledger.PodID) (started, created time.Time)

// sort brings entries into the order. Pods that are new are ranked by start, creation and name; pods
// that are gone are forgotten.
func (o *order) sort(entries []ledger.Entry, when times) {
	var fresh []ledger.PodID
	here := make(map[string]bool, len(entries))
	for _, e := range entries {
		here[e.Pod.UID] = true
		if _, ok := o.rank[e.Pod.UID]; !ok {
			fresh = append(fresh, e.Pod)
		}
	}
	slices.SortFunc(fresh, func(a, b ledger.PodID) int {
		startA, madeA := when(a)
		startB, madeB := when(b)
		return cmp.Or(compareTimes(startA, startB), compareTimes(madeA, madeB), strings.Compare(a.String(), b.String()))
	})
	for _, id := range fresh {
		o.seen(id.UID)
	}
	for uid := range o.rank {
		if !here[uid] {
			delete(o.rank, uid)
		}
	}
	slices.SortFunc(entries, func(a, b ledger.Entry) int { return cmp.Compare(o.rank[a.Pod.UID], o.rank[b.Pod.UID]) })
}

// compareTimes has unknown times last: such a pod is newer than what the API server has told.
func compareTimes(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return cmp.Compare(btoi(a.IsZero()), btoi(b.IsZero()))
	}
	return a.Compare(b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
