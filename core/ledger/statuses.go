package ledger

import (
	"maps"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file records what the statuses of pods say about a restart of their kubelet. No verdict, no turn and no
// possible state depends on it. So Node.News stays the same, OnChange is not called, and no pod's wait for its turn
// ends. Only Node.Basis.Statuses and the version of the node's slot change.

// Status records the statuses of a pod that is bound to a node. For a pod that has ended, the caller records empty
// statuses, which removes them from the book.
func (b *Book) Status(node, uid string, s place.Statuses) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, had := b.statuses[node][uid]
	if had != s.Empty() && old.Equal(&s) {
		return // these statuses are recorded already, or are empty and none are recorded
	}
	now := maps.Clone(b.statuses[node])
	if now == nil {
		now = map[string]place.Statuses{}
	}
	if delete(now, uid); !s.Empty() {
		now[uid] = s
	}
	if b.statuses[node] = now; len(now) == 0 {
		delete(b.statuses, node)
	}
	if n := b.snap.Load().Node(node); n != nil {
		next := *n
		next.Basis.Statuses = b.statuses[node]
		b.snap.Store(b.snap.Load().set(&next))
	}
}

// withStatuses returns the node with the statuses of its pods, by UID. It returns n itself if there are none.
func withStatuses(n *state.Node, statuses map[string]place.Statuses) *state.Node {
	if len(statuses) == 0 {
		return n
	}
	out := *n
	out.Basis.Statuses = statuses
	return &out
}
