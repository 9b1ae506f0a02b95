package idset

import (
	"math/rand/v2"
	"testing"
)

// Operations change Bits in place. They do not change the sets that the Bits were made from, or that were made from
// them.
func TestBitsAgreeWithSets(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, seed))
	for range 2000 {
		x, y := Of(keys(random(r))...), Of(keys(random(r))...)
		text := x.String()
		b := x.Bits()
		check := func(name string, want Set[CPU]) {
			t.Helper()
			got := b.Set()
			if !got.Equal(want) || b.Len() != want.Len() || b.Min() != want.Min() || b.AndLen(y) != want.AndLen(y) {
				t.Fatalf("seed %d: %s of %q and %q = %q, want %q", seed, name, x, y, got, want)
			}
		}
		b.Add(y)
		check("Add", x.Union(y))
		union := b.Set()
		b.Drop(x)
		check("Drop", y.Minus(x))
		if b.Meet(&b, y); !union.Equal(x.Union(y)) {
			t.Fatalf("seed %d: a set changed with the bits that it was made of", seed)
		}
		check("Meet", y.Minus(x))
		o := x.Bits()
		b.Meet(&o, y)
		check("Meet", x.And(y))
		if x.String() != text {
			t.Fatalf("seed %d: %q became %q", seed, text, x)
		}
	}
}
