package kube

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/state"
)

// This file applies layouts to the ledger. Layout ignores old versions of a node's layout (recordVersion) and bounds
// how often layouts are read (atPace). take then converts a layout together with its base, and reports it. A layout
// that cannot be read is rejected, and the node falls back to its NodeResourceTopology.

// Layout receives a layout that was added or changed. It ignores an old version. A layout that cannot be read is
// rejected, and affects no other node. Its node is then estimated from its NodeResourceTopology or, without one,
// unknown.
func (f *Feed) Layout(l *v1alpha1.NodeLayout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.recordVersion(l) {
		f.atPace(l.Name, f.weight(l), func() { f.take(l) })
	}
}

// take converts a layout and reports it to the ledger. It puts a layout aside whose base has not arrived, and rejects
// one that cannot be read. f.mu is held.
func (f *Feed) take(l *v1alpha1.NodeLayout) {
	c, err := l.CoreFrom(f.base[l.Name], v1alpha1.Sharing{Machine: f.machines.New, ID: f.bound.id})
	if errors.Is(err, v1alpha1.ErrNoBase) {
		f.await(l, err)
		return
	}
	if err != nil {
		f.reject(l.Name, err)
		return
	}
	delete(f.awaiting, l.Name)
	if delete(f.applied, l.Name); l.Base != 0 {
		f.applied[l.Name] = l
	}
	if b := f.base[l.Name]; l.Base != 0 && !l.Continues(b.Agent, b.Sequence) {
		// The base at hand has a higher sequence than the layout, so the base's data counts. Either the base was
		// written later, or a new agent counts from a lower sequence. In the second case, the layout's own base
		// arrives later and applies the layout again.
		f.awaiting[l.Name] = &incomplete{l}
	}
	_, wasRejected := f.problems[l.Name]
	delete(f.problems, l.Name)
	if wasRejected || unconditioned(l) {
		f.onRefused(l.Name, nil)
	}
	f.layoutAccepted(l.Name)
	f.written[l.Name] = l.WrittenAt()
	out := f.book.Report(l.Name, state.Layout{Machine: c.Machine, Rules: c.Rules, Entries: c.Entries, Groups: c.Groups,
		Inexact: append(c.Inexact, f.contradiction(l.Name, c.Entries)...)})
	f.repeatEnds(c.Entries)
	for _, o := range out {
		f.onOutcome(o)
	}
	f.relist(l.Name)
	f.bookStatuses(l.Name, c.Entries)
	f.onReport(l)
}

// reject records why a layout is not used. f.mu is held.
func (f *Feed) reject(node string, why error) {
	delete(f.awaiting, node)
	f.layoutLost(node)
	if f.problems[node] != why.Error() {
		f.problems[node] = why.Error()
		f.onRefused(node, why)
	}
}

// repeatEnds reports to the ledger again that some of the listed pods have ended. The layout may have been written
// before these ends, and the ledger has no record of an end that came while the node had no layout.
func (f *Feed) repeatEnds(entries []state.Entry) {
	for _, e := range entries {
		switch how, ended := f.ended.get(e.Pod.UID); {
		case !ended:
		case how != mayRun:
			f.book.Release(e.Pod.UID)
		case !f.book.Doubted(e.Pod.UID):
			f.vanish(e.Pod.UID)
		}
	}
}

// unconditioned reports whether an accepted layout lacks its conditions: it is new, or was corrected after the
// scheduler that rejected it had ended.
func unconditioned(l *v1alpha1.NodeLayout) bool {
	return !meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionAccepted) ||
		meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionExact) == nil
}

// OnReport registers a callback for every layout that the ledger accepts. Register it before the first event; the
// callback must not call the feed.
func (f *Feed) OnReport(do func(*v1alpha1.NodeLayout)) { f.onReport = do }

// recordVersion records the version of a layout, and reports whether the layout has to be applied: it is newer than
// the recorded version, and its sequence is not lower. A newer object with a lower sequence is stored in
// version.late; see lateGrace.
func (f *Feed) recordVersion(l *v1alpha1.NodeLayout) bool {
	received := version{resource: l.ResourceVersion, uid: l.UID, sequence: l.Sequence}
	old, known := f.versions[l.Name]
	if !known {
		old.resource, known = f.dropped.get(l.Name)
	}
	if known && compare(received.resource, old.resource) <= 0 {
		return false
	}
	late := received.uid == old.uid && received.sequence < old.sequence
	if late {
		received.sequence, received.late = old.sequence, l
		if old.late == nil {
			f.later(lateGrace, func() { f.acceptLate(l.Name) })
		}
	}
	f.versions[l.Name] = received
	return !late
}

// acceptLate is called lateGrace after a layout was rejected as late. If the node's newest layout is still rejected
// as late, acceptLate applies it.
func (f *Feed) acceptLate(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, known := f.versions[node]
	if !known || v.late == nil {
		return
	}
	l := v.late
	v.sequence, v.late = l.Sequence, nil
	f.versions[node] = v
	f.atPace(node, f.weight(l), func() { f.take(l) })
}

// LayoutGone receives a layout that was deleted. If a newer layout of that name has arrived, LayoutGone does nothing.
func (f *Feed) LayoutGone(l *v1alpha1.NodeLayout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.versions[l.Name]; ok && compare(l.ResourceVersion, known.resource) < 0 {
		return
	}
	if last, ok := f.dropped.get(l.Name); ok && compare(l.ResourceVersion, last) <= 0 {
		return // a queueing hint repeats an earlier deletion; the later one stays recorded
	}
	f.dropped.put(l.Name, l.ResourceVersion)
	delete(f.applied, l.Name)
	delete(f.awaiting, l.Name)
	delete(f.versions, l.Name)
	f.atPace(l.Name, 1, func() {
		delete(f.problems, l.Name)
		delete(f.written, l.Name)
		f.layoutLost(l.Name)
		f.later(0, func() { f.onFreed(l.Name) })
	})
}

// Problem returns why the layout of a node was rejected, or "". A layout that waits for its base counts as rejected,
// unless an earlier one is still in use.
func (f *Feed) Problem(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if why := f.problems[node]; why != "" || f.awaiting[node] == nil || f.exact[node] {
		return why
	}
	return v1alpha1.ErrNoBase.Error()
}
