package ledger

import (
	"iter"
	"math/bits"
	"slices"
	"sync"

	"github.com/tenon-numa/tenon/core/place"
)

// Index remembers for kinds of pods on which nodes they fit. What it answers is what [Node.Place] says of
// every node; asked again, it asks only nodes that have changed since. All methods may be called by any
// goroutine.
//
// It keeps one bit for every node and kind of pod, and no node: a snapshot that nobody else holds is free
// to go.
type Index struct {
	mu    sync.Mutex
	kinds map[kind]*asked
	most  int
	cost  int    // containers of all kinds
	now   uint64 // counts questions
}

// maxAsked bounds the containers of all kinds together, since pods of thousands of containers take megabytes.
const maxAsked = 64 << 10

// kind is what of a pod decides where it fits.
type kind struct {
	key    string
	demand place.Demand
}

// asked is what is known of one kind of pods.
type asked struct {
	used uint64 // when it was last asked for; Index.mu guards it

	pod    *place.Pod
	demand place.Demand
	cost   int // see costOf

	asking   sync.Mutex // while nodes are asked by this question
	question *place.Question

	mu sync.Mutex // guards what follows, and is not held while nodes are asked
	// fits has one word for each chunk of the snapshot of this version and origin. It is not changed: sets
	// share it.
	fits    []uint64
	version uint64
	origin  *origin
}

// NewIndex returns an index of at most so many kinds of pods, at least one; those that were not asked for
// longest give way.
func NewIndex(kinds int) *Index {
	return &Index{kinds: map[kind]*asked{}, most: max(1, kinds)}
}

// Fitting returns the nodes of a snapshot on which the pod fits, its demand included. Pods that are asked
// for by one key and with one demand must have the same shape.
func (x *Index) Fitting(s *Snapshot, key string, p *place.Pod, d place.Demand) *Set {
	a := x.asked(kind{key, d}, p)
	fits, since, origin := a.known()
	if origin != s.origin || s.version < since {
		fits, since = nil, 0
	}
	if fits == nil || since != s.version {
		fits = a.renew(s, fits, since)
		a.learn(s, fits)
	}
	return &Set{snap: s, words: fits}
}

func (a *asked) known() (fits []uint64, version uint64, origin *origin) {
	a.mu.Lock()
	fits, version, origin = a.fits, a.version, a.origin
	a.mu.Unlock()
	return fits, version, origin
}

// learn remembers what was found for a snapshot, unless more is known.
func (a *asked) learn(s *Snapshot, fits []uint64) {
	a.mu.Lock()
	if a.origin != s.origin || a.version < s.version {
		a.fits, a.version, a.origin = fits, s.version, s.origin
	}
	a.mu.Unlock()
}

// borrow returns a question that nobody else asks until it is returned: nobody waits for another one's answers,
// which are for thousands of nodes. Mostly nobody else asks, and what the question has learned serves again.
func (a *asked) borrow() *place.Question {
	if a.asking.TryLock() {
		return a.question
	}
	return place.NewQuestion(a.pod)
}

func (a *asked) giveBack(q *place.Question) {
	if q == a.question {
		a.asking.Unlock()
	}
}

// Fits is Fitting for a single node, in whatever state it is. Nothing is remembered of the node.
func (x *Index) Fits(n *Node, key string, p *place.Pod, d place.Demand) (fits bool) {
	a := x.asked(kind{key, d}, p)
	q := a.borrow()
	fits = a.on(n, q, false)
	a.giveBack(q)
	return fits
}

func (x *Index) asked(k kind, p *place.Pod) *asked {
	if a := x.find(k); a != nil {
		return a
	}
	fresh := &asked{question: place.NewQuestion(p), pod: p, demand: k.demand, cost: costOf(p)}
	x.mu.Lock()
	defer x.mu.Unlock()
	if a := x.kinds[k]; a != nil {
		return a // somebody else was quicker
	}
	for len(x.kinds) >= x.most || len(x.kinds) > 0 && x.cost+fresh.cost > maxAsked {
		x.forget()
	}
	x.kinds[k], x.cost, fresh.used = fresh, x.cost+fresh.cost, x.now
	return fresh
}

// find returns what is known of a kind, or nil.
func (x *Index) find(k kind) *asked {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now++
	a := x.kinds[k]
	if a != nil {
		a.used = x.now
	}
	return a
}

// forget drops the kind that was not asked for longest.
func (x *Index) forget() {
	var oldest kind
	least := ^uint64(0)
	for k, a := range x.kinds {
		if a.used < least {
			oldest, least = k, a.used
		}
	}
	x.cost -= x.kinds[oldest].cost
	delete(x.kinds, oldest)
}

// renew asks the nodes that have changed since a version for which fits holds.
func (a *asked) renew(s *Snapshot, fits []uint64, since uint64) (out []uint64) {
	out = make([]uint64, len(s.chunks))
	copy(out, fits)
	q := a.borrow()
	a.update(s, out, since, q)
	a.giveBack(q)
	return out
}

// update asks the nodes that have changed since a version for which out holds.
func (a *asked) update(s *Snapshot, out []uint64, since uint64, q *place.Question) {
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
			if k := bits.TrailingZeros64(rest); !a.on(c.nodes[k], q, true) {
				word[0] &^= 1 << k
			}
		}
		out[i] = out[i]&^changed | word[0]
	}
}

// on reports whether the pod fits on a node. inFirst says that its first state is known to have room for the pod.
func (a *asked) on(n *Node, q *place.Question, inFirst bool) bool {
	return n.fit(a.pod, func(state *Node) bool {
		switch {
		case a.demand != (place.Demand{}):
			return state.placeHere(a.pod, a.demand).Fits()
		case inFirst && state == n:
			return true
		}
		return q.Fits(state.Usage)
	}, nil) == accepted
}

// Set is some nodes of a snapshot. It never changes.
type Set struct {
	snap  *Snapshot
	words []uint64 // by chunk
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
	i, ok := s.snap.names.at(name)
	return ok && s.words[i/chunkSize]>>(uint(i)%chunkSize)&1 != 0
}

// All yields the nodes in the order of [Snapshot.All].
func (s *Set) All() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
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
