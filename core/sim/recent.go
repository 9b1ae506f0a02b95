package sim

import (
	"github.com/tenon-numa/tenon/core/score"
)

// This file is what a scheduler knows of the pods that its cluster usually runs: those that arrived last,
// not those that the trace has in store.

const (
	remembered = 1024 // arrivals
	renewal    = 128  // arrivals after which the mix is made anew
)

// recent counts the shapes of the latest arrivals.
type recent struct {
	trace  *Trace
	ring   []int
	counts []int64 // by shape
	total  int
	mix    *score.Mix
	number int // of the mix: how often it was made
}

// newRecent begins with what is usual, in proportion, as if that had arrived.
func newRecent(t *Trace, usual []int64) *recent {
	r := &recent{trace: t, counts: make([]int64, len(t.Shapes))}
	total := int64(0)
	for _, n := range usual {
		total += n
	}
	for shape, n := range usual {
		for range n * remembered / max(1, total) {
			r.add(shape)
		}
	}
	if r.total > 0 {
		r.renew()
	}
	return r
}

// add remembers an arrival. The mix is made anew when what is known has doubled, and later every now and
// then.
func (r *recent) add(shape int) {
	if len(r.ring) < remembered {
		r.ring = append(r.ring, shape)
	} else {
		at := r.total % remembered
		r.counts[r.ring[at]]--
		r.ring[at] = shape
	}
	r.counts[shape]++
	r.total++
	if r.total%renewal == 0 || r.total < renewal && r.total&(r.total-1) == 0 {
		r.renew()
	}
}

func (r *recent) renew() {
	shares := make([]score.Share, 0, len(r.counts))
	for i, n := range r.counts {
		shares = append(shares, score.Share{Pod: &r.trace.Shapes[i].Pod, Weight: n})
	}
	r.mix = score.NewMix(shares)
	r.number++
}
