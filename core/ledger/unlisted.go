package ledger

import (
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file bounds how long a node waits for a report about one pod. A report may never come: the agent has stopped,
// or what it reads lacks the pod. Such a pod must not keep others from its node for good.

// unlisted are the pods that their node has admitted, and that no report lists in time.
type unlisted struct {
	pods []*assumedPod
	// ways are what the pods may hold together, likeliest first. Each way has the entries of the pods that hold
	// something. If there are pods, there is at least one way. It is also possible that none of the pods is there;
	// ways does not contain that case.
	ways [][]state.Entry
}

// Unlisted records that no report lists a pod although its node admitted it long ago. The pod keeps what it may have
// received, and no other pod waits for it any more: the node with each of these holdings and the node without the pod
// are possible states. At most maxOptions combinations are kept for all such pods of the node, the likeliest ones.
// Unlisted changes nothing and returns false if the pod is not assumed, is not known to be admitted, or holds
// nothing, or if its node is estimated or has no report.
func (b *Book) Unlisted(uid string) bool {
	a := b.accountOf(uid)
	defer b.close(a)
	if a == nil || !a.reportsPods() {
		return false
	}
	f := a.find(uid)
	if f == nil || f.acked == 0 || len(f.options.known) == 0 {
		return false
	}
	a.unlisted = unlisted{append(slices.Clone(a.unlisted.pods), f), a.waysWith(f)}
	a.assumed = slices.DeleteFunc(slices.Clone(a.assumed), func(g *assumedPod) bool { return g == f })
	a.news++
	b.renew(a)
	return true
}

// waysWith returns the ways (see unlisted) of the unlisted pods and an assumed pod together. They follow from each
// possible state of the node, and from what the pod may have got before something was released beside it.
func (a *account) waysWith(f *assumedPod) (ways [][]state.Entry) {
	s := a.newSearch()
	a.search(&s)
	i := slices.Index(s.assumed, f)
	for _, w := range s.found {
		var way []state.Entry
		for _, e := range w.base.Entries {
			if a.isUnlisted(e.Pod.UID) {
				way = append(way, e)
			}
		}
		if hs := w.got[i]; len(hs) > 0 {
			way = append(way, state.Entry{Pod: f.id, Source: state.Predicted, Holdings: hs})
		}
		ways = addWay(ways, way)
	}
	beside := a.unlisted.ways
	if len(beside) == 0 {
		beside = [][]state.Entry{nil}
	}
	for _, o := range f.earlier.known {
		for _, way := range beside {
			ways = addWay(ways, append(slices.Clone(way), state.Entry{Pod: f.id, Source: state.Predicted, Holdings: o}))
		}
	}
	if len(ways) == 0 { // the search had to stop
		mine := state.Entry{Pod: f.id, Source: state.Predicted, Holdings: f.holdings()}
		ways = [][]state.Entry{append(slices.Clone(a.unlisted.likeliest()), mine)}
	}
	return ways[:min(len(ways), a.limits.options)]
}

// addWay adds a way that is not empty and not there yet.
func addWay(ways [][]state.Entry, way []state.Entry) [][]state.Entry {
	equal := func(x, y state.Entry) bool { return x.Pod.UID == y.Pod.UID && equalHoldings(x.Holdings, y.Holdings) }
	known := func(w []state.Entry) bool { return slices.EqualFunc(w, way, equal) }
	if len(way) == 0 || slices.ContainsFunc(ways, known) {
		return ways
	}
	return append(ways, way)
}

// likeliest returns the likeliest way, or nil if there is none.
func (u unlisted) likeliest() []state.Entry {
	if len(u.ways) == 0 {
		return nil
	}
	return u.ways[0]
}

// without returns u without the pods for which gone returns true.
func (u unlisted) without(gone func(uid string) bool) (out unlisted) {
	for _, f := range u.pods {
		if !gone(f.id.UID) {
			out.pods = append(out.pods, f)
		}
	}
	for _, way := range u.ways {
		remaining := slices.DeleteFunc(slices.Clone(way), func(e state.Entry) bool { return gone(e.Pod.UID) })
		out.ways = addWay(out.ways, remaining)
	}
	return out
}

// isUnlisted reports whether the account has the pod as unlisted.
func (a *account) isUnlisted(uid string) bool {
	return slices.ContainsFunc(a.unlisted.pods, func(f *assumedPod) bool { return f.id.UID == uid })
}

// dropUnlisted removes a pod from the unlisted ones.
func (a *account) dropUnlisted(uid string) {
	a.unlisted = a.unlisted.without(func(other string) bool { return other == uid })
}

// pruneUnlisted removes the pods in listed, which a report lists, from the unlisted pods. If renewed is set, the
// predictions for the other unlisted pods are no longer valid, for example because the machine or the rules are new.
// These pods are then assumed again, as pods that were admitted.
func (a *account) pruneUnlisted(listed map[string]bool, renewed bool) {
	for _, f := range a.unlisted.pods {
		switch uid := f.id.UID; {
		case listed[uid]:
			a.unassumed = append(a.unassumed, uid)
		case renewed:
			f.earlier = choices{}
			a.assumed = append(slices.Clone(a.assumed), f)
		}
	}
	a.unlisted = a.unlisted.without(func(uid string) bool { return listed[uid] || renewed })
	if renewed {
		a.sort()
	}
}

// possibleWays returns the ways that share no CPU with a reported pod, since a CPU has one holder. If no way is left,
// the predictions do not help, and it returns all ways.
func possibleWays(ways [][]state.Entry, reported []state.Entry) (out [][]state.Entry) {
	taken := func(way []state.Entry) bool {
		return slices.ContainsFunc(way, func(e state.Entry) bool {
			return slices.ContainsFunc(e.Holdings, func(h place.Holding) bool { return hasAny(reported, h.CPUs) })
		})
	}
	if out = slices.DeleteFunc(slices.Clone(ways), taken); len(out) == 0 {
		return ways
	}
	return out
}

// hasAny reports whether one of the entries holds one of the CPUs.
func hasAny(entries []state.Entry, cpus idset.Set[idset.CPU]) bool {
	return slices.ContainsFunc(entries, func(e state.Entry) bool {
		return slices.ContainsFunc(e.Holdings, func(h place.Holding) bool { return h.CPUs.AndLen(cpus) > 0 })
	})
}

// openStates returns the possible states of a node besides its base. They differ in what the unlisted pods hold, and
// in whether the unlisted pods and the pods in Gone are still on the node.
func (a *account) openStates() (out []*state.Node) {
	var gone []string
	for _, id := range a.base.Gone {
		gone = append(gone, id.UID)
	}
	with := func(way []state.Entry) *state.Node {
		n := *a.base
		a.observe(&n, way)
		return &n
	}
	for i, way := range a.unlisted.ways {
		if i > 0 {
			out = append(out, with(way))
		}
	}
	if len(a.unlisted.pods)+len(gone) > 0 {
		out = append(out, with(nil).Without(gone...))
	}
	return out
}

// goneIDs returns the pods that the last report lists and that have no object, if no other report is expected soon.
func (a *account) goneIDs() (ids []state.PodID) {
	if len(a.overdue) == 0 || !a.reportsPods() {
		return nil
	}
	for _, e := range a.layout.Entries {
		if a.doubts[e.Pod.UID] && a.overdue[e.Pod.UID] {
			ids = append(ids, e.Pod)
		}
	}
	return ids
}

// unlistedIDs returns the ids of the unlisted pods.
func (a *account) unlistedIDs() (ids []state.PodID) {
	for _, f := range a.unlisted.pods {
		ids = append(ids, f.id)
	}
	return ids
}
