// Package idset holds sets of small ids (CPU, core, L3 group, socket, NUMA node), one Go type per kind of id.
//
// A Set is a value: every operation returns a new Set and no operation changes one, so sets may be shared between
// goroutines and stored in immutable values. The text form is the Linux list format ("0-3,8,10-11", see
// Documentation/admin-guide/kernel-parameters in the kernel tree).
//
// The package rejects ids below 0 and above [Max], so no input list can make it allocate more than a few KiB.
package idset

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/printable"
)

// Max is the largest id that a set can hold. Linux allows 8192 CPUs (CONFIG_NR_CPUS_RANGE_END).
const Max = 1<<14 - 1

// The kinds of ids. They are distinct types so that a socket number cannot be used as a CPU number.
type (
	// CPU is a logical CPU (a hardware thread) as Linux numbers it.
	CPU int
	// Core is a physical core, named by its lowest CPU: the core_id of sysfs is unique per socket only.
	Core int
	// L3 is a group of CPUs that share a last-level cache; the kubelet orders groups by this number.
	L3 int
	// Socket is a physical package as Linux numbers it.
	Socket int
	// NUMA is a NUMA node of a machine as Linux numbers it; ids may be sparse.
	NUMA int
)

// Set is a set of ids of kind T. The zero Set is empty and ready to use.
type Set[T ~int] struct {
	// Invariant: the last word is never zero, so equal sets have equal words.
	words []uint64
}

// Of returns the set of the given ids. It panics on an id outside 0..Max: check ids from outside with [Valid] or
// [Parse] first.
func Of[T ~int](ids ...T) Set[T] {
	top := -1
	for _, id := range ids {
		if !Valid(int(id)) {
			panic(fmt.Sprintf("idset: id %d is outside 0..%d", id, Max))
		}
		top = max(top, int(id))
	}
	if top < 0 {
		return Set[T]{}
	}
	w := make([]uint64, top/64+1)
	for _, id := range ids {
		w[id/64] |= 1 << (uint(id) % 64)
	}
	return Set[T]{w}
}

// Valid reports whether id can be a member of a set.
func Valid(id int) bool { return id >= 0 && id <= Max }

// Parse reads the Linux list format. Blanks around numbers and a trailing newline or NUL byte are allowed, since
// sysfs files have them. An empty text is the empty set. The error names an id that is no number or above Max, or a
// range that runs backwards.
func Parse[T ~int](text string) (Set[T], error) {
	text = strings.Trim(text, " \t\r\n\x00")
	if text == "" {
		return Set[T]{}, nil
	}
	var w []uint64
	for part := range strings.SplitSeq(text, ",") {
		lo, hi, err := parseRange(part)
		if err != nil {
			return Set[T]{}, fmt.Errorf("id list %q: %w", printable.Clip(text, maxShown), err)
		}
		if need := hi/64 + 1; need > len(w) {
			w = append(w, make([]uint64, need-len(w))...)
		}
		for id := lo; id <= hi; id++ {
			w[id/64] |= 1 << (uint(id) % 64)
		}
	}
	return Set[T]{w}, nil
}

func parseRange(part string) (lo, hi int, err error) {
	first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
	if lo, err = parseID(first); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return lo, lo, nil
	}
	if hi, err = parseID(last); err != nil {
		return 0, 0, err
	}
	if hi < lo {
		return 0, 0, fmt.Errorf("range %q runs backwards", printable.Clip(part, maxShown))
	}
	return lo, hi, nil
}

func parseID(s string) (int, error) {
	s = strings.TrimSpace(s)
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not an id", printable.Clip(s, maxShown))
	}
	if n > Max {
		return 0, fmt.Errorf("id %d is above %d", n, Max)
	}
	return int(n), nil
}

// Len returns the number of ids.
func (s Set[T]) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty reports whether the set has no ids.
func (s Set[T]) Empty() bool { return len(s.words) == 0 }

// Has reports whether id is a member.
func (s Set[T]) Has(id T) bool {
	return id >= 0 && int(id)/64 < len(s.words) && s.words[id/64]&(1<<(uint(id)%64)) != 0
}

// Equal reports whether s and o have the same ids.
func (s Set[T]) Equal(o Set[T]) bool { return slices.Equal(s.words, o.words) }

// Min returns the smallest id, or -1 for the empty set.
func (s Set[T]) Min() T {
	for i, w := range s.words {
		if w != 0 {
			return T(i*64 + bits.TrailingZeros64(w))
		}
	}
	return -1
}

// Max returns the largest id, or -1 for the empty set.
func (s Set[T]) Max() T {
	n := len(s.words)
	if n == 0 {
		return -1
	}
	return T(n*64 - 1 - bits.LeadingZeros64(s.words[n-1]))
}

// Union returns the ids that are in at least one of the sets.
func (s Set[T]) Union(o Set[T]) Set[T] {
	a, b := s.words, o.words
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(b) == 0 {
		return Set[T]{a}
	}
	w := slices.Clone(a)
	for i := range b {
		w[i] |= b[i]
	}
	return Set[T]{w}
}

// And returns the ids that are in both sets.
func (s Set[T]) And(o Set[T]) Set[T] {
	n := min(len(s.words), len(o.words))
	w := make([]uint64, n)
	for i := range w {
		w[i] = s.words[i] & o.words[i]
	}
	return Set[T]{trim(w)}
}

// AndLen returns how many ids are in both sets. It allocates nothing.
func (s Set[T]) AndLen(o Set[T]) int {
	n := 0
	for i := range min(len(s.words), len(o.words)) {
		n += bits.OnesCount64(s.words[i] & o.words[i])
	}
	return n
}

// Minus returns the ids of s that are not in o.
func (s Set[T]) Minus(o Set[T]) Set[T] {
	w := slices.Clone(s.words)
	for i := range min(len(w), len(o.words)) {
		w[i] &^= o.words[i]
	}
	return Set[T]{trim(w)}
}

// SubsetOf reports whether every id of s is in o.
func (s Set[T]) SubsetOf(o Set[T]) bool { return s.AndLen(o) == s.Len() }

// With returns s with the given ids added. Like Of, it panics on an id outside 0..Max.
func (s Set[T]) With(ids ...T) Set[T] { return s.Union(Of(ids...)) }

// trim removes zero words from the end, as the invariant of Set requires.
func trim(w []uint64) []uint64 {
	for len(w) > 0 && w[len(w)-1] == 0 {
		w = w[:len(w)-1]
	}
	return w
}

// All yields the ids in ascending order.
func (s Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(T(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// List returns the ids in ascending order, nil for the empty set.
func (s Set[T]) List() []T {
	if s.Empty() {
		return nil
	}
	out := make([]T, 0, s.Len())
	for id := range s.All() {
		out = append(out, id)
	}
	return out
}

// String writes the Linux list format; the empty set is the empty text.
func (s Set[T]) String() string {
	var b strings.Builder
	ids := s.List()
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(ids[i])))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(int(ids[j])))
		}
		i = j + 1
	}
	return b.String()
}

// MarshalText writes the Linux list format, so sets are readable in JSON and YAML.
func (s Set[T]) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the Linux list format.
func (s *Set[T]) UnmarshalText(text []byte) error {
	p, err := Parse[T](string(text))
	if err != nil {
		return err
	}
	*s = p
	return nil
}

// maxShown bounds what errors show of a text, in bytes.
const maxShown = 60
