package ledger

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
)

// This file ends pods: those that were given up, that have ended, that may have, and that were refused.

// Unreserve ends the booking of a pod that was not bound after all; it may be booked again.
func (b *Book) Unreserve(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel(uid)
}

// Decline ends the booking of a pod that had its turn and was not bound, for sure: no node will ever see it.
// After Unreserve that is not sure, since an answer of the API server may have been lost.
func (b *Book) Decline(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, on := b.where[uid]
	if !on {
		return
	}
	delete(b.where, uid)
	a := b.nodes[at]
	a.flights = slices.DeleteFunc(slices.Clone(a.flights), func(f *flight) bool { return f.id.UID == uid })
	a.news++
	b.renew(a)
}

// Release ends a pod for good: it has finished, or never ran. Every node that accounts for it has it no more.
func (b *Book) Release(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(uid)
	for _, node := range b.held.nodes(uid) {
		b.release(b.nodes[node], uid)
	}
}

// drop ends the flight of a pod that has ended. A report that is late may have the pod.
func (b *Book) drop(uid string) {
	if a := b.nodes[b.where[uid]]; a != nil && a.layout != nil {
		a.bury(uid)
	}
	b.cancel(uid)
}

// release ends a pod that a node accounts for.
func (b *Book) release(a *account, uid string) {
	if a.gone[uid] {
		return // the end of a pod is told by more than one event
	}
	if _, entry := a.base.Entry(uid); !entry {
		a.stray(uid)
	}
	a.gone[uid] = true
	a.news++
	delete(a.doubts, uid)
	a.released(uid)
	b.renew(a)
}

// Vanish notes that the object of a pod is gone though nothing said that the pod ended: it was deleted
// by force, and its node may run it still. What the node reported of it holds until it reports again;
// a node that is coarse, or without a layout, cannot tell, and the pod counts as ended.
func (b *Book) Vanish(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.nodes[b.where[uid]]; a.tells() {
		a.flight(uid).vanished = true
		a.news++
		b.renew(a)
	} else {
		b.drop(uid)
	}
	for _, node := range b.held.nodes(uid) {
		if a := b.nodes[node]; !a.tells() {
			b.release(a, uid)
		} else if a.flight(uid) == nil {
			a.doubts[uid] = true
			a.news++
			a.released(uid)
			b.renew(a)
		}
	}
}

// tells reports whether the node's reports say which pods hold what.
func (a *account) tells() bool { return a != nil && a.layout != nil && a.layout.Amounts == nil }

// Doubt takes which pods there are, when the book is begun. One that a node reports and that is not there
// has ended, or was deleted by force; the node is then in either of two states until it reports again.
func (b *Book) Doubt(there func(uid string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range b.held.first {
		if there(uid) {
			continue
		}
		for _, node := range b.held.nodes(uid) {
			b.nodes[node].doubts[uid] = true
		}
	}
	for _, a := range b.nodes {
		if len(a.doubts) > 0 {
			b.renew(a)
		}
	}
}

// Refuse ends a pod that its node has refused. If a verdict said that it would fit, its shape is kept
// away from the node until the node reports again, and ok is set.
func (b *Book) Refuse(uid string, why place.Error) (o Outcome, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.nodes[b.where[uid]]
	if a == nil {
		return o, false
	}
	f := a.flight(uid)
	o = Outcome{Node: a.name, Pod: f.id, Result: Rejected, Predicted: f.holdings(), Error: why, Foreign: f.foreign}
	ok = len(f.options.of) > 0 && a.layout != nil
	if ok {
		next := map[string]place.Error{f.shape: why}
		for shape, e := range a.refused {
			next[shape] = e
		}
		a.refused = next
	}
	b.cancel(uid)
	return o, ok
}

// Pardon lets shapes that a node has refused try again, though the node has not reported.
func (b *Book) Pardon(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.nodes[node]; a != nil && len(a.refused) > 0 {
		a.refused = nil
		b.renew(a)
	}
}

// cancel ends the flight of a pod.
func (b *Book) cancel(uid string) {
	at, on := b.where[uid]
	if !on {
		return
	}
	delete(b.where, uid)
	a := b.nodes[at]
	me := a.flight(uid)
	a.flights = slices.DeleteFunc(slices.Clone(a.flights), func(f *flight) bool { return f == me })
	if me.turned != 0 {
		a.news++
		a.released(uid)
		me.keep()
		for _, f := range a.flights {
			if f.turned != 0 && f.shape == me.shape && !f.before(me) && !me.before(f) {
				f.kept = f.kept.or(me.kept) // they may have changed places
			}
		}
	}
	b.renew(a)
}

// released notes that something was given back: pods on their way may have been admitted before that or
// after it.
func (a *account) released(uid string) {
	for _, f := range a.flights {
		if f.turned != 0 {
			f.keep()
			f.causes = append(f.causes[:len(f.causes):len(f.causes)], uid)
			f.open = f.acked != 0 && !f.firm
		}
	}
}

// maxBuried bounds the pods that are remembered though no report ever had them.
const maxBuried = 32

// bury remembers a pod that ended before it was reported: a report that is late may have it.
func (a *account) bury(uid string) {
	if _, there := a.gone[uid]; there {
		return
	}
	if f := a.flight(uid); f != nil && a.layout.Amounts != nil {
		a.dead = append(a.dead[max(0, len(a.dead)+1-maxBuried):len(a.dead):len(a.dead)], f)
	}
	a.gone[uid] = false
	a.buried = append(a.buried[:len(a.buried):len(a.buried)], uid)
	if len(a.buried) > maxBuried {
		delete(a.gone, a.buried[0])
		a.buried = a.buried[1:]
	}
}

// depart takes which pods a report lists. A pod that an earlier one had, and this one has not, ended
// before it: who ended and is in no report yet was admitted after that, unless it is known to be admitted
// and the report just lacks it.
func (a *account) depart(listed map[string]bool) {
	for uid, reported := range a.gone {
		if !reported || listed[uid] {
			continue
		}
		delete(a.gone, uid)
		for _, f := range a.flights {
			f.settled(uid)
		}
	}
	maps.DeleteFunc(a.doubts, func(uid string, _ bool) bool { return !listed[uid] })
	if a.base == nil || !slices.ContainsFunc(a.base.Entries, func(e Entry) bool { return !listed[e.Pod.UID] }) {
		return
	}
	for _, f := range a.flights {
		f.open = f.open || f.acked != 0
	}
}

// Settle notes that a pod was known to be admitted long ago: what ends from now on ended after that.
func (b *Book) Settle(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.nodes[b.where[uid]]; a != nil {
		if f := a.flight(uid); f.acked != 0 {
			f.firm = true
		}
	}
}

// Overdue notes that a report was due long ago which tells of the pod. If none has, the node is silent.
func (b *Book) Overdue(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, node := range append(b.held.nodes(uid), b.where[uid]) {
		a := b.nodes[node]
		if a == nil || a.base == nil || a.base.Quality != Exact || a.silent {
			continue
		}
		if f := a.flight(uid); f != nil && len(f.options.of) > 0 || f == nil && a.doubts[uid] {
			a.silent = true
			b.renew(a)
		}
	}
}

// Doubted reports whether it is not known if a pod is still on the node that reports it.
func (b *Book) Doubted(uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.held.nodes(uid), func(node string) bool { return b.nodes[node].doubts[uid] })
}
