package sched

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// overlay is a node as it would be without some of its pods and with others. What a node gives a pod
// depends on who else is there, so every change is computed from the node as it is.
type overlay struct {
	removed []string // UIDs
	added   []addition
	node    *ledger.Node
}

type addition struct {
	id  ledger.PodID
	pod *place.Pod
}

// add takes a pod back if it was removed; one that the node has not is put behind all others.
func (o *overlay) add(id ledger.PodID, p *place.Pod) {
	if i := slices.Index(o.removed, id.UID); i >= 0 {
		o.removed = slices.Delete(o.removed, i, i+1)
		return
	}
	if _, there := o.node.Entry(id.UID); !there && o.index(id.UID) < 0 {
		o.added = append(o.added, addition{id, p})
	}
}

func (o *overlay) index(uid string) int {
	return slices.IndexFunc(o.added, func(a addition) bool { return a.id.UID == uid })
}

func (o *overlay) remove(uid string) {
	if i := o.index(uid); i >= 0 {
		o.added = slices.Delete(o.added, i, i+1)
		return
	}
	o.removed = append(o.removed, uid)
}

// change replaces the overlay of a node; a node of which nothing is known has none.
func (s *state) change(name string, by func(*overlay)) {
	base := s.snap.Node(name)
	if base == nil {
		return
	}
	next := &overlay{node: base}
	if o, ok := s.overlay[name]; ok {
		next = &overlay{removed: slices.Clone(o.removed), added: slices.Clone(o.added), node: o.node}
	}
	by(next)
	next.node = base
	if len(next.removed) > 0 {
		next.node = base.Without(next.removed...)
	}
	for _, a := range next.added {
		next.node, _ = next.node.With(a.id, a.pod)
	}
	all := maps.Clone(s.overlay)
	if all == nil {
		all = map[string]*overlay{}
	}
	all[name] = next
	s.overlay = all
}
