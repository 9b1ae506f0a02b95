package idset

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestListFormat(t *testing.T) {
	ok := func(in, want string, n int) {
		t.Helper()
		s, err := Parse[CPU](in)
		if err != nil {
			t.Fatalf("Parse(%q): %v", in, err)
		}
		if s.String() != want || s.Len() != n {
			t.Errorf("Parse(%q) = %q with %d ids, want %q with %d", in, s, s.Len(), want, n)
		}
	}
	ok("", "", 0)
	ok("\n", "", 0)
	ok("0", "0", 1)
	ok("0-3,8", "0-3,8", 5)
	ok(" 8 , 0-1,2-3\n", "0-3,8", 5)
	ok("250-255\x00", "250-255", 6)
	ok("1,1,1-2", "1-2", 2)
	ok("16383", "16383", 1)

	bad := func(in string) {
		t.Helper()
		if s, err := Parse[CPU](in); err == nil {
			t.Errorf("Parse(%q) = %q, want an error", in, s)
		} else if !strings.Contains(err.Error(), "id") {
			t.Errorf("Parse(%q): error %q does not name the id", in, err)
		}
	}
	bad("a")
	bad("-1")
	bad("3-1")
	bad("0-")
	bad("0,,1")
	bad("16384")
	bad("0-4294967295")
	bad("99999999999999999999")
}

func TestAlgebraAgreesWithMaps(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	for range 2000 {
		a, b := random(r), random(r)
		x, y := Of(keys(a)...), Of(keys(b)...)
		check := func(name string, got Set[CPU], keep func(CPU) bool) {
			t.Helper()
			n := 0
			for id := range CPU(300) {
				if keep(id) != got.Has(id) {
					t.Fatalf("seed %d: %s of %q and %q = %q: id %d", seed, name, x, y, got, id)
				}
				if keep(id) {
					n++
				}
			}
			if n != got.Len() {
				t.Fatalf("seed %d: %s of %q and %q has %d ids, want %d", seed, name, x, y, got.Len(), n)
			}
			if back, err := Parse[CPU](got.String()); err != nil || !back.Equal(got) {
				t.Fatalf("seed %d: %q does not survive its text form: %q, %v", seed, got, back, err)
			}
		}
		check("Union", x.Union(y), func(id CPU) bool { return a[id] || b[id] })
		check("And", x.And(y), func(id CPU) bool { return a[id] && b[id] })
		check("Minus", x.Minus(y), func(id CPU) bool { return a[id] && !b[id] })
		if x.AndLen(y) != x.And(y).Len() || x.SubsetOf(y) != x.Minus(y).Empty() {
			t.Fatalf("seed %d: AndLen or SubsetOf of %q and %q", seed, x, y)
		}
		if !x.Empty() && (x.Min() != x.List()[0] || x.Max() != x.List()[x.Len()-1]) {
			t.Fatalf("seed %d: Min or Max of %q", seed, x)
		}
	}
}

func random(r *rand.Rand) map[CPU]bool {
	m := map[CPU]bool{}
	for range r.IntN(40) {
		m[CPU(r.IntN(300))] = true
	}
	return m
}

func keys(m map[CPU]bool) (ids []CPU) {
	for id := range m {
		ids = append(ids, id)
	}
	return ids
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0-3,8", "1,2,3", "0-16383", "5-4", "x", "0-99999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := Parse[NUMA](in)
		if err != nil {
			return
		}
		back, err := Parse[NUMA](s.String())
		if err != nil || !back.Equal(s) {
			t.Fatalf("Parse(%q) = %q, which reads back as %q, %v", in, s, back, err)
		}
	})
}
