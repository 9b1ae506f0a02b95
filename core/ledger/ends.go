package ledger

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file handles pods that are not bound after all, that have ended, that may have ended, and that were refused.

// Unreserve ends the booking of a pod that is not known to be bound. If it had its turn, it may have reached its
// node: what other pods get there is uncertain then. The pod may be booked again.
func (b *Book) Unreserve(uid string) {
	if a := b.accountOf(uid); a != nil {
		b.cancel(a, uid)
		b.close(a)
	}
}

// Withdraw is Unreserve for a pod that was reserved on trial, and was never meant to be bound. Others receive no news
// of its end (see [Book.OnParting]): a group cycle reserves all its pods on trial, again and again.
func (b *Book) Withdraw(uid string) {
	if a := b.accountOf(uid); a != nil {
		if f := a.find(uid); f != nil {
			f.onTrial = true
		}
		b.cancel(a, uid)
		b.close(a)
	}
}

// Decline ends the booking of a pod that certainly was not bound, although it had its turn. No node will receive it,
// so the predictions for other pods stay right.
func (b *Book) Decline(uid string) {
	a := b.accountOf(uid)
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
	b.unmarkAssumed(uid)
	b.unrelate(a, uid)
	a.news++
	b.renew(a)
}

// Release ends a pod for good: it has finished, or never ran. It is removed from every node that accounts for it.
func (b *Book) Release(uid string) {
	if a := b.accountOf(uid); a != nil {
		b.drop(a, uid)
		b.close(a)
	}
	b.eachHolder(uid, func(a *account) { b.release(a, uid) })
}

// drop ends the booking of a pod that has ended, and remembers the end, since a late report may still list the pod.
func (b *Book) drop(a *account, uid string) {
	if a.layout != nil {
		a.rememberEnd(uid)
	}
	b.cancel(a, uid)
}

// release ends a pod on a node that accounts for it. The value true in account.ended means that the node's last report
// lists the pod.
func (b *Book) release(a *account, uid string) {
	if _, known := a.ended[uid]; known {
		mark(&a.ended, uid, true)
		return // another event has reported the end before
	}
	mark(&a.ended, uid, true)
	if a.estimated() {
		a.estimate.End(uid)
	}
	a.news++
	delete(a.doubts, uid)
	a.markReleased()
	b.unrelate(a, uid)
	b.renew(a)
}

// Vanish records that the object of a pod is gone, but no event reported that the pod ended. It was deleted by force,
// and its node may still run it. So the pod stays assumed, with uncertain holdings, or stays in the node's last
// report until the next one. If the node is estimated, no report will show the end, and the pod counts as ended.
func (b *Book) Vanish(uid string) {
	if a := b.accountOf(uid); a != nil {
		if f := a.find(uid); f != nil && !a.estimated() {
			f.uncertain = true
			a.news++
			b.renew(a)
		} else {
			b.drop(a, uid)
		}
		b.close(a)
	}
	b.eachHolder(uid, func(a *account) {
		if !a.reportsPods() {
			b.release(a, uid)
		} else if a.find(uid) == nil {
			mark(&a.doubts, uid, true)
			a.news++
			a.markReleased()
			b.renew(a)
		}
	})
}

// reportsPods reports whether the node's reports say which pods hold what.
func (a *account) reportsPods() bool { return a.layout != nil && !a.estimated() }

// Doubt compares the reports of all nodes with the pods that exist. The caller calls it once, when the book has the
// reports and pods of the start. exists reports whether a pod exists. Of a pod in the amounts of an estimated node,
// only the UID is known. A pod that a node reports and that does not exist has ended, or was deleted by force; the
// node is then in either of two states until it reports again. Doubt returns the UIDs of these pods, in order.
func (b *Book) Doubt(exists func(id state.PodID) bool) (uids []string) {
	for _, node := range b.nodeNames() {
		a := b.open(node)
		if a != nil && a.base != nil {
			a.doubt(exists)
			if len(a.doubts) > 0 {
				b.renew(a)
			}
			uids = slices.AppendSeq(uids, maps.Keys(a.doubts))
		}
		b.close(a)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// doubt records the pods that the node accounts for and that do not exist.
func (a *account) doubt(exists func(id state.PodID) bool) {
	for _, uid := range a.countedUIDs() {
		if !exists(state.PodID{UID: uid}) {
			mark(&a.doubts, uid, true)
		}
	}
	for _, e := range a.layout.Entries {
		if !exists(e.Pod) {
			mark(&a.doubts, e.Pod.UID, true)
		}
	}
}

// maxRefused bounds the shapes that are kept away from a node. Beyond it, only the last one is kept away.
const maxRefused = 64

// Refuse ends a pod that its node has refused. If a verdict had predicted that the pod fits, ok is set and o is the
// outcome of that prediction. In this case, pods of its shape are kept away from the node until the node reports
// again.
func (b *Book) Refuse(uid string, why place.RefusalReason) (o state.Outcome, ok bool) {
	a := b.accountOf(uid)
	if a == nil {
		return o, false
	}
	defer b.close(a)
	f := a.find(uid)
	if f == nil {
		b.cancel(a, uid)
		return o, false
	}
	o = state.Outcome{Node: a.name, Pod: f.id, Result: state.Rejected, Predicted: f.holdings(), Error: why,
		Foreign: f.foreign}
	ok = len(f.options.known) > 0 && a.layout != nil
	if ok {
		a.keepAway(f.shape, why)
	}
	b.cancel(a, uid)
	return o, ok
}

// RefusedBefore keeps pods of p's shape away from a node until it reports again: the node refused p before this book
// was begun, and has not reported since. It does nothing for a node without a layout.
func (b *Book) RefusedBefore(node string, p *place.Pod, why place.RefusalReason) {
	a := b.open(node)
	if a != nil && a.layout != nil {
		a.keepAway(p.Shape(), why)
		b.renew(a)
	}
	b.close(a)
}

// keepAway adds a shape to the refused shapes of the node (Node.Refused). If there are maxRefused already, only the
// new one remains.
func (a *account) keepAway(shape string, why place.RefusalReason) {
	next := map[string]place.RefusalReason{shape: why}
	if len(a.refused) < maxRefused {
		maps.Copy(next, a.refused)
	}
	a.refused = next
}

// Pardon ends the effect of all refusals of a node, although the node has not reported.
func (b *Book) Pardon(node string) {
	a := b.open(node)
	if a != nil && len(a.refused) > 0 {
		a.refused = nil
		b.renew(a)
	}
	b.close(a)
}

// cancel ends the booking of a pod on its node: of a followed pod (in account.assumed), of an unlisted one (see
// unlisted.go), or of one beyond the bound (in account.excess). If a followed or unlisted pod had its turn, its end
// makes the holdings of other assumed pods uncertain; see markReleased.
func (b *Book) cancel(a *account, uid string) {
	b.unmarkAssumed(uid)
	b.unrelate(a, uid)
	if a.excess[uid] {
		if delete(a.excess, uid); len(a.excess) == 0 {
			b.renew(a)
		}
		return
	}
	if a.isUnlisted(uid) {
		a.dropUnlisted(uid)
		a.news++
		a.markReleased()
		b.renew(a)
		return
	}
	me := a.find(uid)
	a.assumed = slices.DeleteFunc(slices.Clone(a.assumed), func(f *assumedPod) bool { return f == me })
	if me.turned != 0 {
		a.news++
		a.markReleased()
		if a.estimated() {
			a.inheritPast(me)
		}
	}
	b.renew(a)
}

// markReleased records that a pod gave something back. Each assumed pod that had its turn may have been admitted
// before or after the release, which may decide what it got. The node's report will show what that is.
func (a *account) markReleased() {
	for _, f := range a.assumed {
		switch {
		case f.turned == 0 || a.base == nil || f.decision != nil:
		case a.estimated():
			a.widen(f)
		default:
			a.markUncertain(f)
		}
	}
}

// markUncertain records that an assumed pod may have been admitted before or after a release. So it may still hold
// what was predicted before the release.
func (a *account) markUncertain(f *assumedPod) {
	f.uncertain = true
	for _, o := range f.options.known {
		f.earlier.add(o, a.limits.options)
	}
}

// maxEndedEarly bounds the remembered pods that ended before a report listed them.
const maxEndedEarly = 32

// rememberEnd remembers a pod that ended before it was reported, since a late report may still list it.
func (a *account) rememberEnd(uid string) {
	if _, there := a.ended[uid]; there {
		return
	}
	if f := a.find(uid); f != nil && a.estimated() {
		a.estimate.EndEarly(f.forEstimate())
	}
	mark(&a.ended, uid, false)
	a.endedEarly = append(a.endedEarly[:len(a.endedEarly):len(a.endedEarly)], uid)
	if len(a.endedEarly) > maxEndedEarly {
		delete(a.ended, a.endedEarly[0])
		a.endedEarly = a.endedEarly[1:]
	}
}

// dropMissing removes the pods that a report no longer lists from ended, doubts and overdue. A pod that ended before
// it was reported stays in ended. dropMissing returns true if a pod of the previous report is missing and the book
// had no event of its end.
func (a *account) dropMissing(listed map[string]bool) (ended bool) {
	maps.DeleteFunc(a.ended, func(uid string, reported bool) bool { return reported && !listed[uid] })
	maps.DeleteFunc(a.doubts, func(uid string, _ bool) bool { return !listed[uid] })
	maps.DeleteFunc(a.overdue, func(uid string, _ bool) bool { return !a.doubts[uid] })
	return a.base != nil && slices.ContainsFunc(a.base.Entries, func(e state.Entry) bool {
		return !listed[e.Pod.UID] && e.Source != state.Predicted
	})
}

// Overdue records that a report about the pod should have come long ago. A node that still owes this report is silent
// from then on (Node.Silent): it has not listed an assumed pod that holds something, or its last report lists a pod
// that has no object. In the second case, the node with the pod and the node without it become possible states, so
// that other pods do not wait for the report. Overdue returns the names of such nodes, where more pods may fit now.
func (b *Book) Overdue(uid string) (opened []string) {
	late := func(a *account) {
		if !a.reportsPods() {
			return
		}
		f := a.find(uid)
		doubted := f == nil && a.doubts[uid] && !a.overdue[uid]
		if doubted {
			mark(&a.overdue, uid, true)
			opened = append(opened, a.name)
		}
		if doubted || !a.silent && f != nil && a.awaits(f) {
			a.silent = true
			b.renew(a)
		}
	}
	if a := b.accountOf(uid); a != nil {
		late(a)
		b.close(a)
	}
	b.eachHolder(uid, late)
	return opened
}

// awaits reports whether a report will list the pod: it holds something. A pod that runs although it fits in no known
// state of the node holds something, too, unless the empty node would assign nothing to it.
func (a *account) awaits(f *assumedPod) bool {
	return len(f.options.known) > 0 || f.cost <= maxEffort && !a.idle(f.pod)
}

// OpenDoubts records that no report will come soon about the pods in a node's last report that have no object. The
// node with them and the node without them are then possible states, and other pods do not wait for a report. Unlike
// [Book.Overdue] it does not mark the node as silent, because the pods may have gone just now.
func (b *Book) OpenDoubts(node string) {
	a := b.open(node)
	defer b.close(a)
	if a == nil || !a.reportsPods() || len(a.doubts) == 0 {
		return
	}
	for uid := range a.doubts {
		mark(&a.overdue, uid, true)
	}
	b.renew(a)
}

// Doubted reports whether it is uncertain that a pod is still on the node that reports it.
func (b *Book) Doubted(uid string) (doubted bool) {
	b.eachHolder(uid, func(a *account) { doubted = doubted || a.doubts[uid] })
	return doubted
}
