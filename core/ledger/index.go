package ledger

import (
	"iter"
	"math/bits"
	"slices"
	"sync"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Index remembers on which nodes the pods of one kind fit. For every node it answers as [state.Node.Place] does. When
// asked again, it computes only for nodes that have changed since. All methods may be called by any goroutine.
//
// It stores one bit per node, and no pointers to nodes: a snapshot without other users can be freed.
type Index struct {
	pod    *place.Pod
	demand place.Demand

	asking   sync.Mutex // held while this question is in use
	question *place.Question

	mu sync.Mutex // guards the fields below; not held while nodes are asked
	// fits has one word for each chunk of the snapshot with this version and origin, and one bit for each node. It is
	// never changed, because sets share it.
	fits    []uint64
	version uint64
	origin  *origin
}

// NewIndex returns an index for pods that have the shape of p and demand d.
func NewIndex(p *place.Pod, d place.Demand) *Index {
	return &Index{pod: p, demand: d, question: place.NewQuestion(p)}
}

// Fitting returns the nodes of a snapshot on which the pod fits, including its demand.
func (x *Index) Fitting(s *Snapshot) *Set {
	fits, since, origin := x.stored()
	if origin != s.origin || s.version < since {
		fits, since = nil, 0
	}
	if fits == nil || since != s.version {
		fits = x.renew(s, fits, since)
		x.remember(s, fits)
	}
	return &Set{snap: s, words: fits}
}

// Fits reports whether the pod fits on a node, including its demand. The node need not be in a snapshot, and Fits
// stores nothing about it.
func (x *Index) Fits(n *state.Node) (fits bool) {
	q := x.borrow()
	fits = x.fitsOn(n, q, false)
	x.giveBack(q)
	return fits
}

// Outline returns what the pod gets on a node of the result of Fitting, in amounts. If ok is false, only
// [state.Node.Place] has the answer: the pod has a demand, another goroutine is using the question, or
// [place.Question.Outline] has no answer.
func (x *Index) Outline(n *state.Node) (o place.Outline, ok bool) {
	if x.demand != (place.Demand{}) || !x.asking.TryLock() {
		return o, false
	}
	o, ok = x.question.Outline(n.Usage)
	x.asking.Unlock()
	return o, ok
}

// stored returns the stored result, and the version and origin of the snapshot that it is for.
func (x *Index) stored() (fits []uint64, version uint64, origin *origin) {
	x.mu.Lock()
	fits, version, origin = x.fits, x.version, x.origin
	x.mu.Unlock()
	return fits, version, origin
}

// remember stores the result for a snapshot, unless there is a newer one.
func (x *Index) remember(s *Snapshot, fits []uint64) {
	x.mu.Lock()
	if x.origin != s.origin || x.version < s.version {
		x.fits, x.version, x.origin = fits, s.version, s.origin
	}
	x.mu.Unlock()
}

// borrow returns a question for use by one goroutine until giveBack. If x.question is in use it returns a new one,
// because an answer about thousands of nodes takes too long to wait for. Usually x.question is free, and what it has
// computed is used again.
func (x *Index) borrow() *place.Question {
	if x.asking.TryLock() {
		return x.question
	}
	return place.NewQuestion(x.pod)
}

// giveBack ends the use of a question that borrow returned.
func (x *Index) giveBack(q *place.Question) {
	if q == x.question {
		x.asking.Unlock()
	}
}

// renew returns fits for the snapshot; it asks only the nodes that have changed since the version of fits.
func (x *Index) renew(s *Snapshot, fits []uint64, since uint64) (out []uint64) {
	out = make([]uint64, len(s.chunks))
	copy(out, fits)
	q := x.borrow()
	x.update(s, out, since, q)
	x.giveBack(q)
	return out
}

// update asks the nodes that have changed since the version of out, and changes out.
func (x *Index) update(s *Snapshot, out []uint64, since uint64, q *place.Question) {
	for i, c := range s.chunks {
		if c.latest <= since {
			continue
		}
		var changed uint64
		var usages [chunkSize]*place.Usage
		for k, n := range c.nodes {
			if c.since[k] <= since {
				continue
			}
			if changed |= 1 << k; n != nil {
				usages[k] = n.Usage
			}
		}
		var word [1]uint64
		q.FitsAll(usages[:], word[:])
		for rest := word[0]; rest != 0; rest &= rest - 1 {
			if k := bits.TrailingZeros64(rest); !x.fitsOn(c.nodes[k], q, true) {
				word[0] &^= 1 << k
			}
		}
		out[i] = out[i]&^changed | word[0]
	}
}

// fitsOn reports whether the pod fits on a node. inFirst: the node's first state is known to have room for the pod.
func (x *Index) fitsOn(n *state.Node, q *place.Question, inFirst bool) bool {
	return n.Accepts(x.pod, x.demand, func(one *state.Node) bool {
		switch {
		case x.demand != (place.Demand{}):
			return one.Meets(x.pod, x.demand)
		case inFirst && one == n:
			return true
		}
		return q.Fits(one.Usage)
	})
}

// Set is some nodes of a snapshot. It never changes.
type Set struct {
	snap  *Snapshot
	words []uint64 // by chunk: a bit for each node
}

// Len returns the number of nodes.
func (s *Set) Len() (n int) {
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Has reports whether the node with this name is in the set.
func (s *Set) Has(name string) bool {
	i, ok := s.snap.names.slot(name)
	return ok && s.words[i/chunkSize]>>(uint(i)%chunkSize)&1 != 0
}

// All yields the nodes in the order of [Snapshot.All].
func (s *Set) All() iter.Seq[*state.Node] {
	return func(yield func(*state.Node) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(s.snap.chunks[i].nodes[bits.TrailingZeros64(w)]) {
					return
				}
			}
		}
	}
}

// Names returns the names of the nodes in ascending order.
func (s *Set) Names() []string {
	out := make([]string, 0, s.Len())
	for n := range s.All() {
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return out
}
