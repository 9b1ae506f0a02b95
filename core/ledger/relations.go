package ledger

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file keeps by which keys the pods of a node are related to others. A pod that this scheduler reserves has the
// keys of its demand. The keys of other pods come from their objects.

// Relate records the keys of a pod that is bound to a node. The zero Relations say that the pod has ended: its keys
// count until no report of the node lists it.
func (b *Book) Relate(node, uid string, r state.Relations) {
	if r == (state.Relations{}) {
		a := b.open(node)
		defer b.close(a)
		if a == nil || a.relations[uid] == r {
			return
		}
		if a.leaving == nil {
			a.leaving = map[string]bool{}
		}
		a.leaving[uid] = true
		if a.forgetRelations() {
			b.renew(a)
		}
		return
	}
	a := b.ensure(node)
	defer b.close(a)
	if a.relations[uid] != r {
		a.relate(uid, r)
		b.renew(a)
	}
}

// relate records the keys of a pod.
func (a *account) relate(uid string, r state.Relations) {
	next := maps.Clone(a.relations)
	if next == nil {
		next = map[string]state.Relations{}
	}
	next[uid] = r
	a.relations = next
	delete(a.leaving, uid)
}

// unrelate drops the keys of a pod. It reports whether there were any.
func (a *account) unrelate(uid string) bool {
	if _, has := a.relations[uid]; !has {
		return false
	}
	next := maps.Clone(a.relations)
	delete(next, uid)
	delete(a.leaving, uid)
	a.relations = next
	return true
}

// forgetRelations drops the keys of pods that have ended and that are not on the node any more. It reports whether it
// dropped some.
func (a *account) forgetRelations() (dropped bool) {
	for uid := range a.leaving {
		listed := a.layout != nil && slices.ContainsFunc(a.layout.Entries, func(e state.Entry) bool {
			return e.Pod.UID == uid
		})
		if !listed && a.find(uid) == nil && !a.isUnlisted(uid) {
			dropped = a.unrelate(uid) || dropped
			delete(a.leaving, uid)
		}
	}
	return dropped
}

// Together returns the name of the node on which pods with this key of [place.Demand.Together] hold something, or "".
// Of several nodes, which other schedulers or people may have chosen, it returns the first by name.
func (s *Snapshot) Together(key string) (node string) {
	if key == "" {
		return ""
	}
	for n := range s.All() {
		if (node == "" || n.Name < node) && n.Together(key) {
			node = n.Name
		}
	}
	return node
}

// meetsRelation reports whether the i-th assumed pod is, in a state, where its demand about other pods wants it.
func (a *account) meetsRelation(w *nodeState, i int) bool {
	f := a.assumed[i]
	return !f.demand.Relates() ||
		a.node(w).Relate(f.id.UID, place.Verdict{Holdings: w.got[i]}, f.demand).Fits()
}
