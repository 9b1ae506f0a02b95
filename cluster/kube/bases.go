package kube

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// This file joins layouts with the bases that they continue. Such a layout has only what has changed since its base
// (LayoutBase). Layouts and bases arrive by different watches, in any order.

// bases is what a feed keeps of LayoutBases, by node.
type bases struct {
	// base has the last base received, as core values. The ledger shares the memory of its machine and holdings.
	base map[string]*v1alpha1.Base
	// awaiting has the layouts that continue a base which has not arrived.
	awaiting map[string]*incomplete
	// applied has the layouts that were applied last, if they continue a base.
	applied map[string]*v1alpha1.NodeLayout
}

// incomplete holds a node's newest layout that waits for a base. Each wait has its own incomplete, so that the timer
// of an earlier wait does not end a later one.
type incomplete struct{ layout *v1alpha1.NodeLayout }

// baseGrace is how long a layout may wait for the base that it continues. The agent writes the base first, so
// normally only the order of the two watches can delay it. After baseGrace the layout is rejected, because the base
// was probably deleted and no running agent has written it again.
const baseGrace = 10 * time.Second

// Bases returns the handlers for an informer of bases whose transform is v1alpha1.TypedBase.
func (f *Feed) Bases() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { each(o, f.Base) },
		UpdateFunc: func(_, o any) { each(o, f.Base) },
		DeleteFunc: func(o any) { each(o, f.BaseGone) },
	}
}

// Base receives a base that was added or changed. It applies the layout that waits for the base, if there is one. It
// ignores a base that is not newer than the last one of the node.
func (f *Feed) Base(b *v1alpha1.Base) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.base[b.Name]; old != nil && compare(b.ResourceVersion, old.ResourceVersion) <= 0 {
		return
	}
	f.base[b.Name] = b
	if p := f.paces[b.Name]; p != nil && p.latest != nil {
		return // the event that waits for its pace is later than the layout that waits here, and it will find the base
	}
	// A base that is later than the node's layout is the latest report, although the layout that continues it has not
	// arrived. So the layout at hand is taken again, with the new base's data.
	if l := f.applied[b.Name]; l != nil && f.awaiting[b.Name] == nil && b.Sequence > l.Sequence {
		f.atPace(b.Name, f.weight(l), func() { f.take(l) })
		return
	}
	if w := f.awaiting[b.Name]; w != nil {
		f.atPace(b.Name, f.weight(w.layout), func() {
			f.take(w.layout)
			// Queueing hints judged the layout's event without the base, so waiting pods are tried again.
			f.later(0, func() { f.onFreed(b.Name) })
		})
	}
}

// BaseGone receives a base that was deleted. What the ledger has from the layout stays, because a running agent soon
// writes base and layout again.
func (f *Feed) BaseGone(b *v1alpha1.Base) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.base[b.Name]; old != nil && compare(b.ResourceVersion, old.ResourceVersion) >= 0 {
		delete(f.base, b.Name)
	}
}

// await keeps a layout until its base arrives. If that takes longer than baseGrace, the layout is rejected with why.
// f.mu is held.
func (f *Feed) await(l *v1alpha1.NodeLayout, why error) {
	if w := f.awaiting[l.Name]; w != nil {
		w.layout = l
		return
	}
	w := &incomplete{l}
	f.awaiting[l.Name] = w
	f.later(baseGrace, func() { f.unbased(w, why) })
}

// unbased is called baseGrace after a layout arrived without its base. It does nothing if that wait has ended. It
// rejects the layout with why, but goes on waiting for the base, whose arrival makes the layout valid. Before Begin
// it only prolongs the wait, because the first list of bases may take any time.
func (f *Feed) unbased(w *incomplete, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	node := w.layout.Name
	switch {
	case f.awaiting[node] != w:
	case !f.begun:
		f.later(baseGrace, func() { f.unbased(w, why) })
	default:
		f.reject(node, why)
		f.awaiting[node] = w
	}
}
