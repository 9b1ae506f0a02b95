// Package waiting has pods tried again that were refused: when a node can take them, and not before.
//
// A Queue does it in schedulers of Tenon's own, which tell it how attempts end: it wakes as many pods as a node has
// room for, by the rules of core/wake. A Retries does it in somebody else's main program: it wakes every pod that a
// node takes now. A Backoff has the nodes on which a pod's wait for its turn timed out.
//
// Invariant: no pod waits that a node takes which has changed since it refused the pod. Nothing here decides whether a
// node takes a pod: a Profile answers. The package refuses to call the API server.
//
// Methods on a nil *Queue and a nil *Retries do nothing.
package waiting

import (
	"hash/maphash"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/cluster/preempt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// Profile answers for the pods that one profile of the scheduler refuses. Its values can be compared.
type Profile interface {
	// Room returns for how many pods that ask so a node has room, at most most. The node is nil where the ledger does
	// not know it.
	Room(a Ask, n *ledger.Node, most int) int
	// Barred reports whether a pod is not to be tried on a node now, whatever room there is.
	Barred(pod *v1.Pod, here *Here) bool
	// MayEvict reports whether a pod is to be tried on a node that has room for so many pods of its class, and no more:
	// it waits for news of the node, or may evict others there.
	MayEvict(pod *v1.Pod, c *Class, here *Here, room int) bool
}

// Ask is what a pod asks for. Pods with the same Key and Demand get the same answers.
type Ask struct {
	Key    string
	Pod    *place.Pod
	Demand place.Demand
}

// Class is the pods of one profile that ask for the same.
type Class struct {
	Profile Profile
	Ask     Ask
	// Openings are where pods of the class were woken to evict others.
	Openings preempt.Openings
}

// classKey tells classes apart.
type classKey struct {
	profile Profile
	key     string
	demand  place.Demand
}

func keyOf(p Profile, a Ask) classKey { return classKey{p, a.Key, a.Demand} }

// Here is a node in one state, for as long as one change of it is dealt with.
type Here struct {
	Name string
	Node *ledger.Node // nil if the ledger does not know it
	Seed maphash.Seed // of sums of UIDs

	residents *preempt.Residents
}

// Residents returns the pods of the node, which list returns; it is called once.
func (h *Here) Residents(list func(node string) []*v1.Pod) *preempt.Residents {
	if h.residents == nil {
		h.residents = preempt.NewResidents(list(h.Name))
	}
	return h.residents
}

// nameOf is how the framework names a pod that it is to activate.
func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
