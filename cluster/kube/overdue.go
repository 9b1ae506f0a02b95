package kube

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// This file finds admitted pods that no report lists in time. The agent of such a node has stopped, or does not find
// the pods.

// reportDue is how long a node may take to report a pod that was admitted, or to stop reporting a pod that is gone.
// After that the node counts as silent. Agents take less than a second.
const reportDue = time.Minute

// reportGrace is how long after a pod's admission a report may still have been computed without it.
const reportGrace = 10 * time.Second

// unlisted is called reportDue after a pod was admitted. If the pod has not ended and is not being deleted, the pod
// is due from then on; see handleDue.
func (f *Feed) unlisted(p *boundPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bound.pods[p.id.UID] == p && !p.leaving {
		p.due = true
		f.handleDue(p)
	}
}

// handleDue handles a due pod. The node is silent if its agent has written no layout since the pod was admitted. If
// no report lists the pod, other pods no longer wait for such a report. f.mu is held.
func (f *Feed) handleDue(p *boundPod) {
	if !f.written[p.node].After(p.admittedAt().Add(reportGrace)) {
		f.overdue(p.id.UID)
	}
	if f.book.Unlisted(p.id.UID) {
		f.later(0, func() { f.onFreed(p.node) })
	}
}

// overdue records that a report about a pod is overdue; see [ledger.Book.Overdue].
func (f *Feed) overdue(uid string) {
	for _, node := range f.book.Overdue(uid) {
		f.later(0, func() { f.onFreed(node) })
	}
}

// relist records again, after a report, that the report lacks the due pods of the node, if it does. The report may
// have changed the machine on which the predictions for these pods depend.
func (f *Feed) relist(node string) {
	for _, p := range f.bound.nodes[node] {
		if p.due && !p.leaving {
			f.book.Unlisted(p.id.UID)
		}
	}
}

// overdueAt handles the pods that are due at a given time. A Reader calls it after Begin, in place of the timers of a
// long-lived feed.
func (f *Feed) overdueAt(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for node := range f.bound.nodes {
		for _, p := range f.bound.on(node) {
			since := p.admittedAt()
			if p.started && !p.leaving && !since.IsZero() && !since.Add(reportDue).After(at) {
				p.due = true
				f.handleDue(p)
			}
		}
	}
}

// openDoubts handles pods that a layout lists and that have no object: other pods no longer wait for them. It skips a
// layout that was written less than reportDue before the given time, because the node's agent may be about to write
// another one. A Reader does not see when pods are deleted, so it calls openDoubts after Begin.
func (f *Feed) openDoubts(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(f.written)) {
		if !f.written[node].Add(reportDue).After(at) {
			f.book.OpenDoubts(node)
		}
	}
}

// Settle is for a feed that reads files: no further report will come, so no pod waits for one after Settle. Call it
// after Begin.
func (f *Feed) Settle() { f.openDoubts(f.now()) }

// admittedAt returns when the node admitted the pod, as far as the pod's status shows. The start is by the node's
// clock, and the binding by the API server's clock. The later time counts.
func (b *boundPod) admittedAt() time.Time {
	return max(b.start, b.at).Time()
}

// startOf returns when the kubelet admitted the pod, by the pod's status, or the zero time if the status does not
// show it.
func startOf(pod *v1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}
