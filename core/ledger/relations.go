package ledger

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file keeps by which keys the pods of a node are related to others. A pod that this scheduler reserves has the
// keys of its demand. The keys of other pods come from their objects. Keys of a pod do not change.

// Relate records the keys of a pod that is bound to a node, unless the pod has keys already. The zero Relations mean
// that the pod has ended: its keys count until no report of the node lists it.
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
		if b.forgetRelations(a) {
			b.renew(a)
		}
		return
	}
	a := b.ensure(node)
	defer b.close(a)
	delete(a.leaving, uid)
	if _, has := a.relations[uid]; !has {
		b.relate(a, uid, r)
		b.renew(a)
	}
}

// relate records the keys of a pod, in place of others.
func (b *Book) relate(a *account, uid string, r state.Relations) {
	b.unrelate(a, uid)
	a.ownRelations()
	a.relations[uid] = r
	if r.Together == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.partners[r.Together] == nil {
		b.partners[r.Together] = map[string]int{}
	}
	b.partners[r.Together][a.name]++
}

// unrelate drops the keys of a pod. It reports whether there were any. If the pod was the last one with its key on the
// node, others receive news of that, unless it was there on trial.
func (b *Book) unrelate(a *account, uid string) bool {
	r, has := a.relations[uid]
	if !has {
		return false
	}
	a.ownRelations()
	delete(a.relations, uid)
	delete(a.leaving, uid)
	if r.Together == "" {
		return true
	}
	b.mu.Lock()
	nodes := b.partners[r.Together]
	nodes[a.name]--
	last := nodes[a.name] == 0
	if last {
		delete(nodes, a.name)
	}
	if len(nodes) == 0 {
		delete(b.partners, r.Together)
	}
	b.mu.Unlock()
	if f := a.find(uid); last && (f == nil || !f.onTrial) {
		b.onParting(r.Together)
	}
	return true
}

// ownRelations makes a.relations a map that no published state shares.
func (a *account) ownRelations() {
	if a.relations == nil || a.shared {
		a.relations, a.shared = maps.Clone(a.relations), false
	}
	if a.relations == nil {
		a.relations = map[string]state.Relations{}
	}
}

// shareRelations returns a.relations for a state that will be published.
func (a *account) shareRelations() map[string]state.Relations {
	a.shared = true
	return a.relations
}

// forgetRelations drops the keys of pods that have ended and that are not on the node any more. It reports whether it
// dropped some.
func (b *Book) forgetRelations(a *account) (dropped bool) {
	if len(a.leaving) == 0 {
		return false
	}
	listed := map[string]bool{}
	if a.layout != nil {
		for _, e := range a.layout.Entries {
			listed[e.Pod.UID] = true
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(a.leaving)) {
		if _, ended := a.ended[uid]; (ended || !listed[uid]) && a.find(uid) == nil && !a.isUnlisted(uid) {
			dropped = b.unrelate(a, uid) || dropped
			delete(a.leaving, uid)
		}
	}
	return dropped
}

// Together returns the name of the node that has pods with this key of [place.Demand.Together], whether or not its
// report is known, or "". Of several nodes, which other schedulers or people may have chosen, it returns the first by
// name.
func (b *Book) Together(key string) (node string) {
	if nodes := b.Partners(key); len(nodes) > 0 {
		return nodes[0]
	}
	return ""
}

// Partners returns the names of the nodes that have pods with this key of [place.Demand.Together], in ascending order.
func (b *Book) Partners(key string) []string {
	if key == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.partners[key]))
}

// OnParting sets a callback for every key whose last pod has left a node, so that pods with this key may go elsewhere.
// It must be called before the first change. The callback must return quickly, and must call no method of the book but
// Snapshot.
func (b *Book) OnParting(do func(key string)) { b.onParting = do }

// apartFrom returns another node that has pods with which an assumed pod has to be together, or "". A node that comes
// after the pod's own one by name does not count: one of two nodes has to keep its pods.
func (b *Book) apartFrom(a *account, f *assumedPod) string {
	if nodes := b.Partners(f.demand.Together); len(nodes) > 0 && nodes[0] != a.name {
		return nodes[0]
	}
	return ""
}

// elsewhere returns a node that has pods with which a pod has to be together, unless this node has some, or "".
func (b *Book) elsewhere(node string, d place.Demand) (other string) {
	nodes := b.Partners(d.Together)
	if len(nodes) == 0 || slices.Contains(nodes, node) {
		return ""
	}
	return nodes[0]
}

// refusedElsewhere is the refusal of a pod that has to be together with pods on another node.
func refusedElsewhere(other string) place.Verdict {
	return place.Verdict{Refusal: place.TopologyAffinityError,
		Reasons: []place.Reason{place.Elsewhere(other)}}
}

// meetsRelation reports whether the i-th assumed pod is, in a state, where its demand about other pods wants it.
func (a *account) meetsRelation(w *nodeState, i int) bool {
	f := a.assumed[i]
	return !f.demand.Relates() ||
		a.node(w).Relate(f.id.UID, place.Verdict{Holdings: w.got[i]}, f.demand).Fits()
}
