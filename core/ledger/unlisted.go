package ledger

import "slices"

// This file bounds how long a node waits for a report about one pod. A report may never come: the agent has stopped, or
// what it reads lacks the pod. Such a pod must not keep others from its node for good.

// unlistedPod is a pod that its node has admitted, and that no report lists in time.
type unlistedPod struct {
	pod   *assumedPod
	entry Entry // what was predicted for it
}

// Unlisted records that no report lists a pod although its node admitted it long ago. The pod keeps what was predicted
// for it, and no other pod waits for it any more: both the node with these holdings and the node without them are
// possible states. It returns false if the pod is not assumed, is not known to be admitted, or holds nothing.
func (b *Book) Unlisted(uid string) bool {
	a := b.accountOf(uid)
	defer b.close(a)
	if a == nil || !a.reportsPods() {
		return false
	}
	f := a.find(uid)
	if f == nil || f.acked == 0 || len(f.options.of) == 0 {
		return false
	}
	a.assumed = slices.DeleteFunc(slices.Clone(a.assumed), func(g *assumedPod) bool { return g == f })
	a.unlisted = append(slices.Clone(a.unlisted), unlistedPod{f, Entry{f.id, Predicted, f.holdings()}})
	a.news++
	b.renew(a)
	return true
}

// isUnlisted reports whether the account has the pod as unlisted.
func (a *account) isUnlisted(uid string) bool {
	return slices.ContainsFunc(a.unlisted, func(u unlistedPod) bool { return u.entry.Pod.UID == uid })
}

// dropUnlisted removes a pod from the unlisted ones.
func (a *account) dropUnlisted(uid string) {
	a.unlisted = slices.DeleteFunc(slices.Clone(a.unlisted), func(u unlistedPod) bool { return u.entry.Pod.UID == uid })
}

// keepUnlisted removes the pods that a report lists from the unlisted ones. If the machine or the rules are new, what
// was predicted for the others is no longer valid: they are assumed again, as pods that were admitted.
func (a *account) keepUnlisted(listed map[string]bool, renewed bool) {
	rest := a.unlisted[:0:0]
	for _, u := range a.unlisted {
		switch {
		case listed[u.entry.Pod.UID]:
			a.settled = append(a.settled, u.entry.Pod.UID)
		case renewed:
			a.assumed = append(slices.Clone(a.assumed), u.pod)
		default:
			rest = append(rest, u)
		}
	}
	if a.unlisted = rest; renewed {
		a.sort()
	}
}

// openPods returns the UIDs of the entries that the node may or may not have: pods that no report lists, and pods
// without an object that a report should have dropped long ago.
func (a *account) openPods() (uids []string) {
	for _, u := range a.unlisted {
		uids = append(uids, u.entry.Pod.UID)
	}
	for _, e := range a.base.Entries {
		if a.doubts[e.Pod.UID] && a.overdue[e.Pod.UID] {
			uids = append(uids, e.Pod.UID)
		}
	}
	return uids
}

// unlistedIDs returns the pods that no report lists.
func (a *account) unlistedIDs() (ids []PodID) {
	for _, u := range a.unlisted {
		ids = append(ids, u.entry.Pod)
	}
	return ids
}
