package ledger

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
)

// This file ends pods: those that were given up, that have ended, that may have, and that were refused.

// Unreserve ends the booking of a pod that was not bound after all; it may be booked again.
func (b *Book) Unreserve(uid string) {
	if a := b.carrier(uid); a != nil {
		b.cancel(a, uid)
		b.close(a)
	}
}

// Decline ends the booking of a pod that had its turn and was not bound, for sure: no node will ever see it.
// After Unreserve that is not sure, since an answer of the API server may have been lost.
func (b *Book) Decline(uid string) {
	a := b.carrier(uid)
	if a == nil {
		return
	}
	defer b.close(a)
	b.decline(a, uid)
}

// decline is Decline on the account of the pod's node.
func (b *Book) decline(a *account, uid string) {
	if a.find(uid) == nil {
		b.cancel(a, uid)
		return
	}
	a.assumed = slices.DeleteFunc(slices.Clone(a.assumed), func(f *assumedPod) bool { return f.id.UID == uid })
	b.arrive(uid)
	a.news++
	b.renew(a)
}

// Release ends a pod for good: it has finished, or never ran. Every node that accounts for it has it no more.
func (b *Book) Release(uid string) {
	if a := b.carrier(uid); a != nil {
		b.drop(a, uid)
		b.close(a)
	}
	b.eachHolder(uid, func(a *account) { b.release(a, uid) })
}

// drop ends an assumed pod that has ended. A report that comes late may still list it.
func (b *Book) drop(a *account, uid string) {
	if a.layout != nil {
		a.bury(uid)
	}
	b.cancel(a, uid)
}

// release ends a pod that a node accounts for.
func (b *Book) release(a *account, uid string) {
	if a.gone[uid] {
		return // the end of a pod is told by more than one event
	}
	a.gone[uid] = true
	if a.estimated() {
		a.estimate.End(uid)
	}
	a.news++
	delete(a.doubts, uid)
	a.released()
	b.renew(a)
}

// Vanish notes that the object of a pod is gone though nothing said that the pod ended: it was deleted
// by force, and its node may run it still. What the node reported of it holds until it reports again;
// a node that is coarse, or without a layout, cannot tell, and the pod counts as ended.
func (b *Book) Vanish(uid string) {
	if a := b.carrier(uid); a != nil {
		if f := a.find(uid); f != nil && a.tells() {
			f.uncertain = true
			a.news++
			b.renew(a)
		} else {
			b.drop(a, uid)
		}
		b.close(a)
	}
	b.eachHolder(uid, func(a *account) {
		if !a.tells() {
			b.release(a, uid)
		} else if a.find(uid) == nil {
			a.doubts[uid] = true
			a.news++
			a.released()
			b.renew(a)
		}
	})
}

// tells reports whether the node's reports say which pods hold what.
func (a *account) tells() bool { return a.layout != nil && !a.estimated() }

// Doubt takes which pods there are, when the book is begun. One that a node reports and that is not there
// has ended, or was deleted by force; the node is then in either of two states until it reports again.
func (b *Book) Doubt(there func(uid string) bool) {
	for _, node := range b.known() {
		a := b.open(node)
		if a != nil && a.base != nil {
			a.doubt(there)
			if len(a.doubts) > 0 {
				b.renew(a)
			}
		}
		b.close(a)
	}
}

// doubt notes which of the pods that the node accounts for are not there.
func (a *account) doubt(there func(uid string) bool) {
	for _, uid := range a.counted() {
		if !there(uid) {
			a.doubts[uid] = true
		}
	}
	for _, e := range a.layout.Entries {
		if !there(e.Pod.UID) {
			a.doubts[e.Pod.UID] = true
		}
	}
}

// maxRefused bounds the shapes that are kept away from a node: beyond it, the last one alone is.
const maxRefused = 64

// Refuse ends a pod that its node has refused. If a verdict said that it would fit, its shape is kept
// away from the node until the node reports again, and ok is set.
func (b *Book) Refuse(uid string, why place.RefusalReason) (o Outcome, ok bool) {
	a := b.carrier(uid)
	if a == nil {
		return o, false
	}
	defer b.close(a)
	f := a.find(uid)
	if f == nil {
		b.cancel(a, uid)
		return o, false
	}
	o = Outcome{Node: a.name, Pod: f.id, Result: Rejected, Predicted: f.holdings(), Error: why, Foreign: f.foreign}
	ok = len(f.options.of) > 0 && a.layout != nil
	if ok {
		a.keepAway(f.shape, why)
	}
	b.cancel(a, uid)
	return o, ok
}

// RefusedBefore keeps pods of p's shape away from a node until it reports again: the node refused p before this book
// was begun, and has not reported since. A node without a layout is left alone.
func (b *Book) RefusedBefore(node string, p *place.Pod, why place.RefusalReason) {
	a := b.open(node)
	if a != nil && a.layout != nil {
		a.keepAway(p.Shape(), why)
		b.renew(a)
	}
	b.close(a)
}

// keepAway adds a shape to those that the node has refused.
func (a *account) keepAway(shape string, why place.RefusalReason) {
	next := map[string]place.RefusalReason{shape: why}
	if len(a.refused) < maxRefused {
		maps.Copy(next, a.refused)
	}
	a.refused = next
}

// Pardon lets shapes that a node has refused try again, though the node has not reported.
func (b *Book) Pardon(node string) {
	a := b.open(node)
	if a != nil && len(a.refused) > 0 {
		a.refused = nil
		b.renew(a)
	}
	b.close(a)
}

// cancel removes a pod from those that are assumed on the node.
func (b *Book) cancel(a *account, uid string) {
	b.arrive(uid)
	if a.excess[uid] {
		if delete(a.excess, uid); len(a.excess) == 0 {
			b.renew(a)
		}
		return
	}
	me := a.find(uid)
	a.assumed = slices.DeleteFunc(slices.Clone(a.assumed), func(f *assumedPod) bool { return f == me })
	if me.turned != 0 {
		a.news++
		a.released()
		if a.estimated() {
			a.exchanged(me)
		}
	}
	b.renew(a)
}

// released notes that something was given back. An assumed pod may have been admitted before that or after it, and
// gets one thing or another: its node's report will tell.
func (a *account) released() {
	for _, f := range a.assumed {
		switch {
		case f.turned == 0 || a.base == nil || f.decision != nil:
		case a.estimated():
			a.widen(f)
		default:
			f.uncertain = true
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
	if f := a.find(uid); f != nil && a.estimated() {
		a.estimate.EndEarly(f.forEstimate())
	}
	a.gone[uid] = false
	a.buried = append(a.buried[:len(a.buried):len(a.buried)], uid)
	if len(a.buried) > maxBuried {
		delete(a.gone, a.buried[0])
		a.buried = a.buried[1:]
	}
}

// depart takes the pods that a report lists. It reports whether a pod of the last report is missing whose end the book
// did not know.
func (a *account) depart(listed map[string]bool) (ended bool) {
	maps.DeleteFunc(a.gone, func(uid string, reported bool) bool { return reported && !listed[uid] })
	maps.DeleteFunc(a.doubts, func(uid string, _ bool) bool { return !listed[uid] })
	return a.base != nil && slices.ContainsFunc(a.base.Entries, func(e Entry) bool { return !listed[e.Pod.UID] })
}

// Overdue notes that a report was due long ago which tells of the pod. If none has, the node is silent.
func (b *Book) Overdue(uid string) {
	late := func(a *account) {
		if !a.tells() || a.silent {
			return
		}
		if f := a.find(uid); f != nil && len(f.options.of) > 0 || f == nil && a.doubts[uid] {
			a.silent = true
			b.renew(a)
		}
	}
	if a := b.carrier(uid); a != nil {
		late(a)
		b.close(a)
	}
	b.eachHolder(uid, late)
}

// Doubted reports whether it is not known if a pod is still on the node that reports it.
func (b *Book) Doubted(uid string) (is bool) {
	b.eachHolder(uid, func(a *account) { is = is || a.doubts[uid] })
	return is
}
