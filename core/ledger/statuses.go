package ledger

import (
	"maps"

	"github.com/tenon-numa/tenon/core/place"
)

// This file records what the statuses of pods say about a restart of their kubelet. Nothing else depends on it: no
// verdict, no turn, and no possible state. So it does not count as a change of the node, and wakes nobody.

// Status records the statuses of a pod that is bound to a node. Those of a pod that has ended are to be recorded as
// empty.
func (b *Book) Status(node, uid string, s place.Statuses) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, had := b.statuses[node][uid]
	if had != s.Empty() && old.Equal(&s) {
		return
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
		next.statuses = b.statuses[node]
		b.snap.Store(b.snap.Load().set(&next))
	}
}

// withStatuses returns the node with statuses of its pods.
func (n *Node) withStatuses(of map[string]place.Statuses) *Node {
	if len(of) == 0 {
		return n
	}
	out := *n
	out.statuses = of
	return &out
}

// RestartHazards returns what goes wrong if the node's kubelet restarts, by its holdings and by the statuses of its
// pods. Coarse nodes have no hazards, since they do not report them.
func (n *Node) RestartHazards() []place.Hazard {
	if n.Quality == Coarse || n.Usage == nil {
		return nil
	}
	var pods []place.Readmitted
	for _, e := range n.Entries {
		if s, ok := n.statuses[e.Pod.UID]; ok {
			pods = append(pods, place.Readmitted{Pod: e.Pod.String(), Holdings: e.Holdings, Statuses: s})
		}
	}
	return n.Usage.RestartHazards(pods...)
}
