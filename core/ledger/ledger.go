// Package ledger keeps, for every node of a cluster, the machine, the rules, and who holds what of it:
// holdings that the node reported (observed) and holdings that were computed for pods on their way
// (predicted).
//
// [Book] has the only lock in core; everything it hands out is an immutable [Node] or [Snapshot], so
// any number of readers decide without locks. It refuses to reserve what does not fit: the verdict is
// computed again under the lock, whatever the caller believed.
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
