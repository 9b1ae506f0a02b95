package wake

import "maps"

// Nodes is some nodes, or all but some. It is not changed once the queue has it. A nil *Nodes has none.
type Nodes struct {
	Names map[string]bool
	// But says that the set is all nodes except Names.
	But bool
}

// Has reports whether a node is in the set.
func (s *Nodes) Has(node string) bool { return s != nil && s.Names[node] != s.But }

// share returns the set that equals s and that pods of the class have in common: thousands of pods are refused by the
// same nodes.
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

// hash is FNV-1a. That two sets have one sum costs memory, and nothing else.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
