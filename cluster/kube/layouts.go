package kube

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/state"
)

// This file applies layouts, and what has changed since they were written.

// base is a valid layout.
type base struct {
	sequence int64
	core     v1alpha1.Layout
	head     *v1alpha1.NodeLayout // with metadata and status only
}

// Changes returns the handlers for an informer of typed LayoutChanges.
func (f *Feed) Changes() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { each(o, f.Change) },
		UpdateFunc: func(_, o any) { each(o, f.Change) },
		DeleteFunc: func(o any) { each(o, f.ChangeGone) },
	}
}

// Layout receives a layout that was added or changed. A layout that cannot be read is rejected, and affects no other
// node. Its node is then estimated from its NodeResourceTopology or, without one, unknown.
func (f *Feed) Layout(l *v1alpha1.NodeLayout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newer(l) {
		f.unread[l.Name] = l
		f.atPace(l.Name, weight(l), func() { f.read(l.Name) })
	}
}

// Change receives what has changed since a layout was written. A change that belongs to another layout than the
// recorded one has no effect yet. If its layout arrives later, the change is applied with it.
func (f *Feed) Change(c *v1alpha1.LayoutChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.changes[c.Name]; old != nil && old.UID == c.UID && compare(c.ResourceVersion, old.ResourceVersion) <= 0 {
		return
	}
	f.changes[c.Name] = c
	if b := f.bases[c.Name]; b != nil && (c.Malformed != "" || c.Base == b.sequence) {
		f.atPace(c.Name, 1, func() { f.read(c.Name) })
	}
}

// ChangeGone receives a change that was deleted. The node has what its last change showed until its agent writes again.
func (f *Feed) ChangeGone(c *v1alpha1.LayoutChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.changes[c.Name]; old != nil && old.UID == c.UID {
		delete(f.changes, c.Name)
	}
}

// read reads what has arrived of a node, and applies it to the ledger. f.mu is held.
func (f *Feed) read(node string) {
	if l := f.unread[node]; l != nil {
		delete(f.unread, node)
		core, err := l.CoreOn(f.machines.New)
		if err != nil {
			f.refuse(node, err)
			return
		}
		head := &v1alpha1.NodeLayout{ObjectMeta: l.ObjectMeta, Status: l.Status}
		f.bases[node] = &base{sequence: l.Sequence, core: core, head: head}
	}
	b := f.bases[node]
	if b == nil {
		return
	}
	core, written := b.core, b.head.WrittenAt()
	if c := f.changes[node]; c != nil && (c.Malformed != "" || c.Base == b.sequence) {
		var err error
		if core, err = c.On(b.core); err != nil {
			f.refuse(node, err)
			return
		}
		written = c.WrittenAt()
	}
	f.take(b.head, core)
	f.written[node] = written
}

// refuse records that a node has no valid layout, and why.
func (f *Feed) refuse(node string, err error) {
	delete(f.bases, node)
	f.layoutLost(node)
	if f.problems[node] != err.Error() {
		f.problems[node] = err.Error()
		f.onRefused(node, err)
	}
}

// take applies a layout to the ledger. l has its metadata and status, and c everything else.
func (f *Feed) take(l *v1alpha1.NodeLayout, c v1alpha1.Layout) {
	_, was := f.problems[l.Name]
	delete(f.problems, l.Name)
	if was || unconditioned(l) {
		f.onRefused(l.Name, nil)
	}
	f.layoutAccepted(l.Name)
	out := f.book.Report(l.Name, state.Layout{Machine: c.Machine, Rules: c.Rules, Entries: c.Entries, Groups: c.Groups,
		Inexact: slices.Concat(c.Inexact, f.contradiction(l.Name, c.Entries))})
	f.repeatEnds(c.Entries)
	for _, o := range out {
		f.onOutcome(o)
	}
	f.relist(l.Name)
	f.statuses(l.Name, c.Entries)
	f.onReport(l)
}

// repeatEnds applies the ends of pods that a layout lists: it may have been written before they ended. Ends that came
// while the node had no layout are not in the ledger.
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

// OnReport registers a callback for every report that the ledger accepts. It receives metadata and status of the
// layout. Register it before the first event; the callback must not call the feed.
func (f *Feed) OnReport(do func(*v1alpha1.NodeLayout)) { f.onReport = do }

// newer records the version of a layout, and reports whether the layout has to be applied: it is newer than the
// recorded version, and its sequence is not older. A newer object with an older sequence is kept as late; see
// lateGrace.
func (f *Feed) newer(l *v1alpha1.NodeLayout) bool {
	now := version{resource: l.ResourceVersion, uid: l.UID, sequence: l.Sequence}
	old, known := f.versions[l.Name]
	if !known {
		old.resource, known = f.dropped.get(l.Name)
	}
	if known && compare(now.resource, old.resource) <= 0 {
		return false
	}
	late := now.uid == old.uid && now.sequence < old.sequence
	if late {
		now.sequence, now.late = old.sequence, l
		if old.late == nil {
			f.later(lateGrace, func() { f.overdue(l.Name) })
		}
	}
	f.versions[l.Name] = now
	return !late
}

// overdue applies the layout that was rejected as late, if nothing newer has arrived since.
func (f *Feed) overdue(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, known := f.versions[node]
	if !known || v.late == nil {
		return
	}
	l := v.late
	v.sequence, v.late = l.Sequence, nil
	f.versions[node] = v
	f.unread[node] = l
	f.atPace(node, weight(l), func() { f.read(node) })
}

// LayoutGone receives a layout that was deleted. If a newer layout of that name has arrived, LayoutGone does nothing.
func (f *Feed) LayoutGone(l *v1alpha1.NodeLayout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.versions[l.Name]; ok && compare(l.ResourceVersion, known.resource) < 0 {
		return
	}
	f.dropped.put(l.Name, l.ResourceVersion)
	delete(f.versions, l.Name)
	delete(f.unread, l.Name)
	f.atPace(l.Name, 1, func() {
		delete(f.bases, l.Name)
		delete(f.problems, l.Name)
		delete(f.written, l.Name)
		f.layoutLost(l.Name)
		f.later(0, func() { f.onFreed(l.Name) })
	})
}

// Problem returns why the layout of a node was rejected, or "".
func (f *Feed) Problem(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems[node]
}
