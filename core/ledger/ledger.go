// Package ledger keeps, for every node of a cluster, the machine, the rules, and who holds what of it:
// holdings that the node reported (observed) and holdings that were computed for pods on their way
// (predicted).
//
// [Book] has the only lock in core; everything it hands out is an immutable [Node] or [Snapshot], so
// any number of readers decide without locks. It refuses to reserve what does not fit: the verdict is
// computed again under the lock, whatever the caller believed.
//
// The order in which a node admits pods decides what each gets, and a kubelet sorts what reaches it
// together by creation time. So pods on their way to one node take turns (see [Book.Turn]): a pod may
// be bound when every pod before it is known to have been admitted or has the same shape, because equal
// shapes may change places without anybody else noticing.
package ledger

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// PodID names a pod. The UID decides; namespace and name are for people.
type PodID struct {
	UID, Namespace, Name string
}

// String returns "namespace/name".
func (p PodID) String() string { return p.Namespace + "/" + p.Name }

// Source says how holdings are known.
type Source int

const (
	// Predicted holdings were computed for a pod that the node has not reported yet.
	Predicted Source = iota
	// Observed holdings were reported by the node.
	Observed
)

// Entry is one pod on a node.
type Entry struct {
	Pod      PodID
	Source   Source
	Holdings []place.Holding
}

// Layout is what a node says of itself.
type Layout struct {
	Machine *topo.Machine
	Rules   place.Rules
	// Entries are the pods that hold something, in the order in which the node admitted them.
	Entries []Entry
	// Groups are the memory manager's groups by position of the numa, where holdings do not tell them.
	Groups map[int]place.MemoryGroup
}

// Node is the state of one node at one moment. It never changes; the next state is another Node.
type Node struct {
	Name    string
	Machine *topo.Machine
	Rules   place.Rules
	// Entries are the pods that hold something, in the order in which the node admitted them, as far
	// as that is known: observed ones first, then predicted ones in binding order.
	Entries []Entry
	// Usage is the machine with all entries held.
	Usage *place.Usage
}

// Without returns the node as it would be if the pods with these UIDs were not there.
func (n *Node) Without(uids ...string) *Node {
	gone := map[string]bool{}
	for _, uid := range uids {
		gone[uid] = true
	}
	out := *n
	out.Entries = nil
	out.Usage = place.NewUsage(n.Machine, n.Rules)
	for _, e := range n.Entries {
		if !gone[e.Pod.UID] {
			out.Entries = append(out.Entries, e)
		}
	}
	out.Usage = out.Usage.Hold(holdings(out.Entries)...)
	return &out
}

// With returns the node as it would be if the pod were admitted too; where it would be refused, the
// node is unchanged and ok is false.
func (n *Node) With(id PodID, p *place.Pod) (out *Node, ok bool) {
	v := place.Place(n.Usage, p)
	if !v.Fits() {
		return n, false
	}
	next := *n
	next.Entries = append(n.Entries[:len(n.Entries):len(n.Entries)], Entry{Pod: id, Holdings: v.Holdings})
	next.Usage = n.Usage.Hold(v.Holdings...)
	return &next, true
}

// Entry returns the entry of a pod.
func (n *Node) Entry(uid string) (Entry, bool) {
	for _, e := range n.Entries {
		if e.Pod.UID == uid {
			return e, true
		}
	}
	return Entry{}, false
}

func holdings(entries []Entry) []place.Holding {
	var out []place.Holding
	for _, e := range entries {
		out = append(out, e.Holdings...)
	}
	return out
}
