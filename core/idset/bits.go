package idset

import (
	"math/bits"
	"slices"
)

// Bits is a set that is changed in place, for the inner loops of algorithms. It shares no memory with the sets that it
// is made from or that are made from it. The zero Bits is empty and ready to use.
type Bits[T ~int] struct {
	words []uint64
}

// Bits returns a changeable copy of s.
func (s Set[T]) Bits() Bits[T] { return Bits[T]{slices.Clone(s.words)} }

// Set returns the ids as a Set, which later changes of b do not affect.
func (b *Bits[T]) Set() Set[T] { return Set[T]{slices.Clone(trim(b.words))} }

// Meet sets b to the ids that are in both o and s. o may be b.
func (b *Bits[T]) Meet(o *Bits[T], s Set[T]) {
	from := o.words // may be the words of b
	b.words = b.words[:0]
	for i := range min(len(from), len(s.words)) {
		b.words = append(b.words, from[i]&s.words[i])
	}
}

// Add adds the ids of s to b.
func (b *Bits[T]) Add(s Set[T]) {
	for len(b.words) < len(s.words) {
		b.words = append(b.words, 0)
	}
	for i, w := range s.words {
		b.words[i] |= w
	}
}

// Drop removes the ids of s from b.
func (b *Bits[T]) Drop(s Set[T]) {
	for i := range min(len(b.words), len(s.words)) {
		b.words[i] &^= s.words[i]
	}
}

// Len returns the number of ids.
func (b *Bits[T]) Len() (n int) {
	for _, w := range b.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// AndLen returns how many ids are in both sets.
func (b *Bits[T]) AndLen(s Set[T]) (n int) {
	for i := range min(len(b.words), len(s.words)) {
		n += bits.OnesCount64(b.words[i] & s.words[i])
	}
	return n
}

// Min returns the smallest id, or -1 for the empty set.
func (b *Bits[T]) Min() T { return Set[T]{b.words}.Min() }
