package ledger

import (
	"math/bits"
	"slices"
)

// names maps the name of a node to its slot in a snapshot. It is a trie over hashes that never changes. Adding or
// dropping a name copies only the few trie nodes on the way to it, for any number of names. The nil trie has no
// names.
type names struct {
	branches uint32   // a bit for each of the 32 possible branches that exists
	children []*names // the existing branches, in order
	// A leaf has no children. Names with equal hashes share one.
	hash   uint64
	leaves []named
}

type named struct {
	name string
	at   int
}

// hashOf is FNV-1a, so the same names make the same trie in every run.
func hashOf(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// branch returns the bit of the branch for a hash at a depth, and how many branches are before it.
func (t *names) branch(hash uint64, depth uint) (bit uint32, before int) {
	bit = 1 << (hash >> (5 * depth) & 31)
	return bit, bits.OnesCount32(t.branches & (bit - 1))
}

// slot returns the slot of a name, or false if the trie does not have the name.
func (t *names) slot(name string) (int, bool) { return t.find(hashOf(name), name) }

// find does the work of slot for a name whose hash is known. At each depth, five bits of the hash select the branch.
func (t *names) find(hash uint64, name string) (int, bool) {
	for depth := uint(0); t != nil; depth++ {
		if t.leaves != nil {
			for i := range t.leaves {
				if t.leaves[i].name == name {
					return t.leaves[i].at, true
				}
			}
			return 0, false
		}
		bit, before := t.branch(hash, depth)
		if t.branches&bit == 0 {
			return 0, false
		}
		t = t.children[before]
	}
	return 0, false
}

// with returns a trie that has one more name. The name must not be in t.
func (t *names) with(name string, at int) *names {
	return t.add(hashOf(name), 0, named{name, at})
}

// add is with for the part of a trie at this depth. A leaf with another hash moves one level down.
func (t *names) add(hash uint64, depth uint, n named) *names {
	if t == nil {
		return &names{hash: hash, leaves: []named{n}}
	}
	if t.leaves != nil && t.hash == hash {
		return &names{hash: hash, leaves: append(slices.Clone(t.leaves), n)}
	}
	out := &names{branches: t.branches}
	if t.leaves != nil {
		out.branches, _ = t.branch(t.hash, depth)
		out.children = []*names{t}
	} else {
		out.children = slices.Clone(t.children)
	}
	bit, before := out.branch(hash, depth)
	if out.branches&bit != 0 {
		out.children[before] = out.children[before].add(hash, depth+1, n)
		return out
	}
	out.branches |= bit
	out.children = slices.Insert(out.children, before, (*names)(nil).add(hash, depth+1, n))
	return out
}

// without returns a trie that lacks a name. The name must be in t.
func (t *names) without(name string) *names { return t.drop(hashOf(name), 0, name) }

// drop is without for the part of a trie at this depth. It returns nil if no name is left.
func (t *names) drop(hash uint64, depth uint, name string) *names {
	if t.leaves != nil {
		leaves := slices.DeleteFunc(slices.Clone(t.leaves), func(n named) bool { return n.name == name })
		if len(leaves) == 0 {
			return nil
		}
		return &names{hash: t.hash, leaves: leaves}
	}
	bit, before := t.branch(hash, depth)
	child := t.children[before].drop(hash, depth+1, name)
	out := &names{branches: t.branches, children: slices.Clone(t.children)}
	if child != nil {
		out.children[before] = child
		return out
	}
	out.branches, out.children = out.branches&^bit, slices.Delete(out.children, before, before+1)
	if out.branches == 0 {
		return nil
	}
	return out
}
