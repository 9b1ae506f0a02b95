// Package waiting retries refused pods when a node can take them, and not before. It wakes as many pods as a node has
// room for, by the rules of core/wake.
//
// Invariant: no pod waits while a node that has changed since it refused the pod would take it. The package does not
// decide whether a node takes a pod: a Profile answers. It never calls the API server. The scheduler has to report how
// attempts end; where it does not, an attempt ends [lapse] after it began.
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

// Profile answers for the pods that one profile of the scheduler refuses. Its values are comparable.
type Profile interface {
	// Room returns how many pods with this request a node has room for, but no more than most. The node is nil if the
	// ledger does not have it.
	Room(a Ask, n *state.Node, most int) int
	// Barred reports whether a pod must not be tried on a node now, whatever room it has.
	Barred(pod *v1.Pod, here *Here) bool
	// MayEvict reports whether to try a pod on a node that has room for exactly this many pods of its class: because
	// the pod waits for news of the node, or may evict others there.
	MayEvict(pod *v1.Pod, c *Class, here *Here, room int) bool
}

// Ask is what a pod requests. Pods with the same Key and Demand get the same answers.
type Ask struct {
	Key    string
	Pod    *place.Pod
	Demand place.Demand
}

// Class is the pods of one profile with the same request.
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

// Here is a node in one state, while one change of it is processed.
type Here struct {
	Name string
	Node *state.Node  // nil if the ledger does not have it
	Seed maphash.Seed // for sums of UIDs

	residents *preempt.Residents
}

// Residents returns the pods of the node. It calls list once.
func (h *Here) Residents(list func(node string) []*v1.Pod) *preempt.Residents {
	if h.residents == nil {
		h.residents = preempt.NewResidents(list(h.Name))
	}
	return h.residents
}
