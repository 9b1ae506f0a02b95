// Package waiting retries refused pods when a node can take them, and not before. It wakes as many pods as a node has
// room for, by the rules of core/wake.
//
// Invariant: no pod waits while a node that has changed since it refused the pod would take it. The package does not
// decide whether a node takes a pod; a Profile does. It never calls the API server. The scheduler has to report how
// attempts end; where it does not, an attempt counts as ended after the time [lapse].
//
// Methods on a nil *Queue do nothing.
package waiting

import (
	"hash/maphash"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/preempt"
)

// Profile answers for the pods that one profile of the scheduler has refused. Its values must be comparable.
type Profile interface {
	// Room returns how many pods with this request a node has room for, or a given bound if that is less. n is nil if
	// the ledger does not have the node.
	Room(a Ask, n *state.Node, most int) int
	// Barred reports whether a pod must not be tried on a node at present, whatever room the node has.
	Barred(pod *v1.Pod, here *Here) bool
	// MayEvict reports whether to try a pod on a node although there may be no room for it: because the pod waits for a
	// report of the node, or may evict others there. room is how many pods of the class the node has room for.
	MayEvict(pod *v1.Pod, c *Class, here *Here, room int) bool
}

// Ask is what a pod requests. Pods with the same Key and Demand get the same answers.
type Ask struct {
	Key    string
	Pod    *place.Pod
	Demand place.Demand
}

// Class is all pods of one profile that have the same request.
type Class struct {
	Profile Profile
	Ask     Ask
	// Openings records where pods of the class were woken to evict others.
	Openings preempt.Openings
}

// classKey identifies a class.
type classKey struct {
	profile Profile
	key     string
	demand  place.Demand
}

func keyOf(p Profile, a Ask) classKey { return classKey{p, a.Key, a.Demand} }

// Here is a node in one state, while the queue processes one change of the node.
type Here struct {
	Name string
	Node *state.Node  // nil if the ledger does not have it
	Seed maphash.Seed // for sums of UIDs

	residents *preempt.Residents
}

// Residents returns the pods of the node with their priorities. It calls list at the first call only.
func (h *Here) Residents(list func(node string) []*v1.Pod) *preempt.Residents {
	if h.residents == nil {
		h.residents = preempt.NewResidents(list(h.Name))
	}
	return h.residents
}
