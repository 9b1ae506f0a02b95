package ledger

import (
	"iter"
	"slices"

	"github.com/tenon-numa/tenon/core/state"
)

// Snapshot is the state of all nodes at one moment. It never changes. The cost of making the next one does not grow
// with the number of nodes, except for a list of one pointer per 64 nodes.
type Snapshot struct {
	names  *names
	count  int
	chunks []*chunk
	// Every node has a slot: a number that it keeps as long as the book has the node. slots is the number of slots
	// that were ever taken; holes are the slots that are free again.
	slots int
	holes *hole
	// version counts the changes of one book; origin identifies the book.
	version uint64
	origin  *origin
}

// chunkSize is the number of nodes whose pointers are copied when one of them changes.
const chunkSize = 64

// chunk is part of a snapshot. Its nodes are nil in free slots. since has the version in which each slot last
// changed, and latest is the greatest of them. With a version, a caller finds what has changed since then, without
// storing a snapshot.
type chunk struct {
	nodes  [chunkSize]*state.Node
	since  [chunkSize]uint64
	latest uint64
}

// hole is a free slot, in a linked list.
type hole struct {
	at   int
	next *hole
}

// origin is not empty, so no two of them have the same address.
type origin struct{ _ byte }

func newSnapshot() *Snapshot { return &Snapshot{origin: &origin{}} }

// Node returns a node, or nil if the book has no layout of it.
func (s *Snapshot) Node(name string) *state.Node {
	if i, ok := s.names.slot(name); ok {
		return s.chunks[i/chunkSize].nodes[i%chunkSize]
	}
	return nil
}

// Len returns the number of nodes.
func (s *Snapshot) Len() int { return s.count }

// All yields every node. The order does not change as long as no node is removed.
func (s *Snapshot) All() iter.Seq[*state.Node] {
	return func(yield func(*state.Node) bool) {
		for _, c := range s.chunks {
			for _, n := range c.nodes {
				if n != nil && !yield(n) {
					return
				}
			}
		}
	}
}

// Names returns the names of all nodes in ascending order.
func (s *Snapshot) Names() []string {
	out := make([]string, 0, s.count)
	for n := range s.All() {
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return out
}

// set returns a snapshot with a new state of one node.
func (s *Snapshot) set(n *state.Node) *Snapshot {
	out := *s
	i, ok := s.names.slot(n.Name)
	if !ok {
		i = out.takeSlot()
		out.names = s.names.with(n.Name, i)
		out.count++
	}
	out.change(i, n)
	return &out
}

// takeSlot takes a free slot and returns it.
func (s *Snapshot) takeSlot() int {
	if h := s.holes; h != nil {
		s.holes = h.next
		return h.at
	}
	s.slots++
	return s.slots - 1
}

// change stores n in a slot; nil makes the slot empty. s is new and no reader has it yet, but it may share chunks
// with older snapshots, so change copies the chunk.
func (s *Snapshot) change(i int, n *state.Node) {
	s.version++
	s.chunks = slices.Clone(s.chunks)
	if i/chunkSize == len(s.chunks) {
		s.chunks = append(s.chunks, &chunk{})
	}
	c := *s.chunks[i/chunkSize]
	c.nodes[i%chunkSize], c.since[i%chunkSize], c.latest = n, s.version, s.version
	s.chunks[i/chunkSize] = &c
}

// drop returns a snapshot without a node.
func (s *Snapshot) drop(name string) *Snapshot {
	i, ok := s.names.slot(name)
	if !ok {
		return s
	}
	out := *s
	out.names, out.holes = s.names.without(name), &hole{i, s.holes}
	out.count--
	out.change(i, nil)
	return &out
}
