package kube

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// This file finds admitted pods that no report lists in time. The agent of such a node has stopped, or does not find
// the pods.

// reportDue is how long a node may take to report a pod that was admitted, or to stop reporting a pod that is gone,
// before it counts as silent. Agents take less than a second.
const reportDue = time.Minute

// reportGrace is how long after a pod's admission a report may still have been computed without it.
const reportGrace = 10 * time.Second

// unlisted is called reportDue after a pod was admitted. If no report lists the pod by now, other pods no longer wait
// for such a report. The node is silent if its agent has not written a layout since.
func (f *Feed) unlisted(p *boundPod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bound.pods[p.id.UID] == p && !p.leaving {
		p.due = true
		f.late(p)
	}
}

// late marks a due pod that its node's report lacks. f.mu is held.
func (f *Feed) late(p *boundPod) {
	if !f.written[p.node].After(p.admittedAt().Add(reportGrace)) {
		f.book.Overdue(p.id.UID)
	}
	if f.book.Unlisted(p.id.UID) {
		f.later(0, func() { f.onFreed(p.node) })
	}
}

// relist marks the due pods of a node again after a report, because the report may have changed the machine for which
// they were predicted.
func (f *Feed) relist(node string) {
	for _, p := range f.bound.nodes[node] {
		if p.due && !p.leaving {
			f.book.Unlisted(p.id.UID)
		}
	}
}

// overdueAt marks the pods that are due at a time. A reader has no timers, and calls it after Begin.
func (f *Feed) overdueAt(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for node := range f.bound.nodes {
		for _, p := range f.bound.on(node) {
			since := p.admittedAt()
			if p.started && !p.leaving && !since.IsZero() && !since.Add(reportDue).After(at) {
				p.due = true
				f.late(p)
			}
		}
	}
}

// openDoubts handles pods that a layout lists and that have no object: other pods no longer wait for them. It skips a
// layout that was written in the last reportDue, because the node's agent may be about to write another one. A reader
// does not see when pods go, so it calls openDoubts after Begin.
func (f *Feed) openDoubts(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(f.written)) {
		if !f.written[node].Add(reportDue).After(at) {
			f.book.OpenDoubts(node)
		}
	}
}

// Settle makes a feed of files, which have no times, wait for no report. Call it after Begin.
func (f *Feed) Settle() { f.openDoubts(f.now()) }

// admittedAt returns when the node admitted the pod, as far as the pod's status shows. The start is a time of the
// node's clock, the binding one of the API server's; the later one counts.
func (b *boundPod) admittedAt() time.Time {
	if b.start.After(b.at) {
		return b.start
	}
	return b.at
}

// startOf returns when the kubelet has admitted the pod, or the zero time.
func startOf(pod *v1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}
