package ledger

import (
	"iter"
	"math/bits"

	"github.com/tenon-numa/tenon/core/state"
)

// This file lets callers store their own data about nodes in arrays, without the nodes themselves. The index of a
// node in such an array is its slot in the snapshots of the book.

// Roster identifies the set of nodes of a snapshot, independently of their states: snapshots of equal rosters have
// the same nodes in the same slots.
type Roster struct {
	names  *names
	origin *origin
}

// Roster returns the roster of the snapshot.
func (s *Snapshot) Roster() Roster { return Roster{s.names, s.origin} }

// Slots returns the number of slots, free ones included: each slot is below it.
func (s *Snapshot) Slots() int { return s.slots }

// Slot returns the slot of a node, from 0. The node keeps its slot as long as the book has the node.
func (s *Snapshot) Slot(name string) (slot int, ok bool) { return s.names.slot(name) }

// At returns the node in a slot, or nil, and the version in which the slot last changed. The version is above 0. In
// all snapshots of one book, equal versions of a slot mean equal states of the same node.
func (s *Snapshot) At(slot int) (*state.Node, uint64) {
	if slot < 0 || slot >= s.slots {
		return nil, 0
	}
	c := s.chunks[slot/chunkSize]
	return c.nodes[slot%chunkSize], c.since[slot%chunkSize]
}

// In reports whether the node in a slot is in the set. The slot must be a slot of the set's snapshot.
func (s *Set) In(slot int) bool { return s.words[slot/chunkSize]>>(uint(slot)%chunkSize)&1 != 0 }

// Since returns the version in which a slot of the snapshot last changed.
func (s *Snapshot) Since(slot int) uint64 { return s.chunks[slot/chunkSize].since[slot%chunkSize] }

// Slots yields the slots of the set's nodes in ascending order.
func (s *Set) Slots() iter.Seq[int] { return s.From(0) }

// From yields the slots of the set's nodes from slot on, in ascending order.
func (s *Set) From(slot int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := max(0, slot) / chunkSize; i < len(s.words); i++ {
			w := s.words[i]
			if i == slot/chunkSize {
				w &= ^uint64(0) << (uint(slot) % chunkSize)
			}
			for ; w != 0; w &= w - 1 {
				if !yield(i*chunkSize + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
