package sched

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// overlay is a hypothetical node: without some of its pods and with others. What a node gives a pod depends on the
// other pods there, so every change is computed from the real node.
type overlay struct {
	removed []string // UIDs
	added   []addition
	base    *ledger.Node // without those that are removed
	node    *ledger.Node // and with those that are added
}

// addition is a pod that the node has not yet: one that is nominated to it.
type addition struct {
	id  ledger.PodID
	pod *place.Pod
	// leaving are the UIDs of pods that will have gone when it comes.
	leaving []string
}

// add takes a pod back if it was removed; one that the node has not is put behind all others.
func (o *overlay) add(id ledger.PodID, p *place.Pod, leaving []string) {
	if i := slices.Index(o.removed, id.UID); i >= 0 {
		o.removed = slices.Delete(o.removed, i, i+1)
		return
	}
	if _, there := o.base.Entry(id.UID); !there && o.index(id.UID) < 0 {
		o.added = append(o.added, addition{id, p, leaving})
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

// spares reports whether the added pods still fit after p, which is admitted first. Added pods that do not fit without
// p do not count.
func (o *overlay) spares(p *place.Pod) bool {
	if len(o.added) == 0 {
		return true
	}
	with, _ := o.base.With(ledger.PodID{}, p)
	before, after := o.arrive(o.base), o.arrive(with)
	for i := range before {
		if before[i] && !after[i] {
			return false
		}
	}
	return true
}

// arrive admits the added pods one after the other, each after the pods have left whose end it waits for, and returns
// which of them fit.
func (o *overlay) arrive(n *ledger.Node) []bool {
	out := make([]bool, len(o.added))
	for i, a := range o.added {
		if len(a.leaving) > 0 {
			n = n.Without(a.leaving...)
		}
		n, out[i] = n.With(a.id, a.pod)
	}
	return out
}

// leaving returns the UIDs of the pods that will have gone from a node when a nominated pod comes: those that
// are being deleted, and those that it is about to evict.
func (p *Plugin) leaving(nominated *v1.Pod, info fwk.NodeInfo) (out []string) {
	for _, p := range info.GetPods() {
		if p.GetPod().DeletionTimestamp != nil {
			out = append(out, string(p.GetPod().UID))
		}
	}
	return append(out, p.evicting().Victims(nominated, info.Node().Name)...)
}

// change replaces the overlay of a node; a node of which nothing is known has none.
func (s *state) change(name string, by func(*overlay)) {
	base := s.snap.Node(name)
	if base == nil {
		return
	}
	next := &overlay{base: base}
	if o, ok := s.overlay[name]; ok {
		next = &overlay{removed: slices.Clone(o.removed), added: slices.Clone(o.added), base: base}
	}
	by(next)
	if len(next.removed) > 0 {
		next.base = base.Without(next.removed...)
	}
	next.node = next.base
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
