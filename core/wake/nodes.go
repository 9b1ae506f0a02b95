package wake

import "maps"

// Nodes is a set of nodes, or all nodes except some. It must not change once the queue has it. A nil *Nodes is empty.
type Nodes struct {
	Names map[string]bool
	// But means that the set has all nodes except Names.
	But bool
}

// Has reports whether a node is in the set.
func (n *Nodes) Has(node string) bool { return n != nil && n.Names[node] != n.But }

// share returns the stored set of the class that equals s, or else stores and returns s. So pods that are refused by
// the same nodes, often thousands, share one set.
func (c *class[K, C, P]) share(s *Nodes) *Nodes {
	sum := uint64(0)
	if s.But {
		sum = 1
	}
	for name := range s.Names {
		sum += hash(name)
	}
	if have := c.shared[sum]; have != nil && have.But == s.But && maps.Equal(have.Names, s.Names) {
		return have
	}
	if len(c.shared) >= maxShared {
		clear(c.shared)
	}
	c.shared[sum] = s
	return s
}

// hash is the FNV-1a hash of a node's name. The hashes of a set's nodes add up to its key. Of different sets with one
// key, the later one is stored in place of the other, which is then made anew where it is needed.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
