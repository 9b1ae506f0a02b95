package score

import (
	"github.com/tenon-numa/tenon/core/place"
)

const (
	// Remembered is the number of pods that a Recent stores. It is high enough to see a shape that every hundredth
	// pod has, and low enough to forget soon what a cluster no longer runs.
	Remembered = 1024
	// renewal is the number of pods after which the mix is computed again.
	renewal = 64
)

// Recent counts the shapes of the last requested pods, and makes a mix of them. Later pods replace earlier ones; no
// clock is involved. A Recent belongs to one goroutine; its mixes may be shared.
type Recent struct {
	ring   []arrival
	next   int // index in ring of the pod that the next one replaces once ring is full
	ids    map[string]bool
	counts map[string]*countedShare // by shape
	since  int                      // pods added since the mix was made
	mix    *Mix
}

// arrival is a requested pod.
type arrival struct{ id, shape string }

// NewRecent returns a Recent without pods.
func NewRecent() *Recent {
	return &Recent{ids: map[string]bool{}, counts: map[string]*countedShare{}, mix: NewMix(nil)}
}

// Add stores a pod, which must not change afterwards, and reports whether it made a new mix. That happens when the
// number of pods has doubled, and later after every renewal pods. A pod that waits and is requested again counts
// once, by its id. A pod that no node aligns does not count.
func (r *Recent) Add(id string, p *place.Pod) bool {
	if r.ids[id] {
		return false
	}
	shape := p.Shape()
	counted := r.counts[shape]
	if counted == nil {
		first := countShare(Share{Pod: p})
		if counted = &first; len(counted.wants) == 0 {
			return false
		}
	}
	if len(r.ring) < Remembered {
		r.ring = append(r.ring, arrival{id, shape})
	} else {
		r.forget(r.ring[r.next])
		r.ring[r.next] = arrival{id, shape}
		r.next = (r.next + 1) % Remembered
	}
	r.ids[id] = true
	counted.Weight++
	r.counts[shape] = counted // forget may have dropped it
	if r.since++; r.since < min(renewal, (len(r.ring)+1)/2) {
		return false
	}
	r.since, r.mix = 0, newMix(r.shares())
	return true
}

// forget takes a pod out of the counts.
func (r *Recent) forget(a arrival) {
	delete(r.ids, a.id)
	counted := r.counts[a.shape]
	if counted.Weight--; counted.Weight == 0 {
		delete(r.counts, a.shape)
	}
}

// shares returns the shares in any order.
func (r *Recent) shares() []countedShare {
	out := make([]countedShare, 0, len(r.counts))
	for _, s := range r.counts {
		out = append(out, *s)
	}
	return out
}

// Mix returns the workload profile as of the last Add that returned true, or the profile without pods if none has. A
// returned Mix never changes.
func (r *Recent) Mix() *Mix { return r.mix }
