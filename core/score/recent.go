package score

import (
	"github.com/tenon-numa/tenon/core/place"
)

const (
	// Remembered is of how many pods a Recent knows: enough that a shape that every hundredth pod has is
	// seen, and few enough that what a cluster no longer runs is soon forgotten.
	Remembered = 1024
	// renewal is the number of pods after which the mix is made anew.
	renewal = 64
)

// Recent counts the shapes of the pods that were asked for last, and makes a mix of them. Pods are
// forgotten by those that come after them: no clock decides. It is not for use by several goroutines; the
// mixes that it makes are.
type Recent struct {
	ring   []arrival
	next   int // where the next pod goes
	ids    map[string]bool
	counts map[string]*Share // by shape
	since  int               // pods that the mix does not know of
	mix    *Mix
}

// arrival is a pod that was asked for.
type arrival struct{ id, shape string }

// NewRecent returns a Recent that knows of no pods.
func NewRecent() *Recent {
	return &Recent{ids: map[string]bool{}, counts: map[string]*Share{}, mix: NewMix(nil)}
}

// Add remembers a pod, which must not change afterwards, and reports whether the mix is another one now: that
// is when the number of pods has doubled, and later every now and then. A pod that waits and is asked for
// again counts once, by its id; one that no node aligns does not count.
func (r *Recent) Add(id string, p *place.Pod) bool {
	if r.ids[id] || len(whole(p)) == 0 {
		return false
	}
	shape := p.Shape()
	if len(r.ring) < Remembered {
		r.ring = append(r.ring, arrival{id, shape})
	} else {
		r.forget(r.ring[r.next])
		r.ring[r.next] = arrival{id, shape}
		r.next = (r.next + 1) % Remembered
	}
	r.ids[id] = true
	if s, ok := r.counts[shape]; ok {
		s.Weight++
	} else {
		r.counts[shape] = &Share{Pod: p, Weight: 1}
	}
	if r.since++; r.since < min(renewal, (len(r.ring)+1)/2) {
		return false
	}
	r.since, r.mix = 0, NewMix(r.shares())
	return true
}

func (r *Recent) forget(a arrival) {
	delete(r.ids, a.id)
	if s := r.counts[a.shape]; s.Weight > 1 {
		s.Weight--
	} else {
		delete(r.counts, a.shape)
	}
}

// shares are in no order: a mix has none.
func (r *Recent) shares() []Share {
	out := make([]Share, 0, len(r.counts))
	for _, s := range r.counts {
		out = append(out, *s)
	}
	return out
}

// Mix returns the workload profile as of the last Add that returned true, or nil. It is never changed.
func (r *Recent) Mix() *Mix { return r.mix }
