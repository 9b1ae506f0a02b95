package ledger

import (
	"maps"
	"slices"
)

// Snapshot is the state of all nodes at one moment. It never changes.
type Snapshot struct {
	index  map[string]int // shared between snapshots until a node comes or goes
	chunks [][]*Node      // nil entries are free places
}

// chunk is the number of nodes whose pointers are copied when one of them changes.
const chunk = 64

// Node returns a node, or nil where the book knows no layout of it.
func (s *Snapshot) Node(name string) *Node {
	i, ok := s.index[name]
	if !ok {
		return nil
	}
	return s.chunks[i/chunk][i%chunk]
}

// Len returns the number of nodes.
func (s *Snapshot) Len() int { return len(s.index) }

// Names returns the names of all nodes in ascending order.
func (s *Snapshot) Names() []string { return slices.Sorted(maps.Keys(s.index)) }

// set returns a snapshot with the state of one node exchanged.
func (s *Snapshot) set(n *Node) *Snapshot {
	out := &Snapshot{index: s.index, chunks: slices.Clone(s.chunks)}
	i, ok := s.index[n.Name]
	if !ok {
		i = out.place()
		out.index = maps.Clone(s.index)
		out.index[n.Name] = i
	}
	c := slices.Clone(out.chunks[i/chunk])
	c[i%chunk] = n
	out.chunks[i/chunk] = c
	return out
}

// place finds a free place, growing the chunks where there is none.
func (s *Snapshot) place() int {
	for c := range s.chunks {
		if i := slices.Index(s.chunks[c], nil); i >= 0 {
			return c*chunk + i
		}
	}
	s.chunks = append(s.chunks, make([]*Node, chunk))
	return (len(s.chunks) - 1) * chunk
}

// drop returns a snapshot without a node.
func (s *Snapshot) drop(name string) *Snapshot {
	i, ok := s.index[name]
	if !ok {
		return s
	}
	out := &Snapshot{index: maps.Clone(s.index), chunks: slices.Clone(s.chunks)}
	delete(out.index, name)
	c := slices.Clone(out.chunks[i/chunk])
	c[i%chunk] = nil
	out.chunks[i/chunk] = c
	return out
}
