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
	now   uint64 // counts questions
}

// kind is what of a pod decides where it fits.
type kind struct {
	key    string
	demand place.Demand
}

// asked is what is known of one kind of pods.
type asked struct {
	used uint64 // when it was last asked for; Index.mu guards it

	mu       sync.Mutex
	question *place.Question
	pod      *place.Pod
	shape    string
	demand   place.Demand
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
	a.mu.Lock()
	defer a.mu.Unlock()
	fits, since := a.fits, a.version
	older := a.origin == s.origin && s.version < a.version
	if a.origin != s.origin || older {
		fits, since = nil, 0
	}
	if fits == nil || since != s.version {
		fits = a.renew(s, fits, since)
	}
	if !older {
		a.fits, a.version, a.origin = fits, s.version, s.origin
	}
	return &Set{snap: s, words: fits}
}

// Fits is Fitting for a single node, in whatever state it is. Nothing is remembered of the node.
func (x *Index) Fits(n *Node, key string, p *place.Pod, d place.Demand) bool {
	a := x.asked(kind{key, d}, p)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.on(n)
}

func (x *Index) asked(k kind, p *place.Pod) *asked {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now++
	a := x.kinds[k]
	if a == nil {
		if len(x.kinds) >= x.most {
			x.forget()
		}
		a = &asked{question: place.NewQuestion(p), pod: p, shape: p.Shape(), demand: k.demand}
		x.kinds[k] = a
	}
	a.used = x.now
	return a
}

// forget drops the kind that was not asked for longest.
func (x *Index) forget() {
	var oldest kind
	least := x.now
	for k, a := range x.kinds {
		if a.used < least {
			oldest, least = k, a.used
		}
	}
	delete(x.kinds, oldest)
}

// renew asks the nodes that have changed since a version for which fits holds.
func (a *asked) renew(s *Snapshot, fits []uint64, since uint64) []uint64 {
	out := make([]uint64, len(s.chunks))
	copy(out, fits)
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
		a.question.FitsAll(usages[:], word[:])
		for rest := word[0]; rest != 0; rest &= rest - 1 {
			if k := bits.TrailingZeros64(rest); !a.elsewhere(c.nodes[k]) {
				word[0] &^= 1 << k
			}
		}
		out[i] = out[i]&^changed | word[0]
	}
	return out
}

// on is Node.Place without holdings and reasons.
func (a *asked) on(n *Node) bool { return a.question.Fits(n.Usage) && a.elsewhere(n) }

// elsewhere is on for a node whose likeliest state admits the pod.
func (a *asked) elsewhere(n *Node) bool {
	if a.demand != (place.Demand{}) || n.doubts(a.pod) {
		return n.Place(a.pod, a.demand).Fits()
	}
	for _, o := range n.Others {
		if !a.question.Fits(o.Usage) {
			return false
		}
	}
	if len(n.Refused) == 0 {
		return true
	}
	_, refused := n.Refused[a.shape]
	return !refused
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
