package evict

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// held is what a victim holds of two NUMA nodes, and of the whole node.
type held struct{ numa, cpus, plain int }

// room is a node of two NUMA nodes, and the CPUs that a pod wants on one of them and of the whole node.
type room struct {
	victims     []held
	free        [2]int
	plain       int
	wants, much int
}

func (r room) works(gone []int) bool {
	free, plain := r.free, r.plain
	for _, i := range gone {
		free[r.victims[i].numa] += r.victims[i].cpus
		plain += r.victims[i].plain
	}
	return max(free[0], free[1]) >= r.wants && plain >= r.much
}

// groups are the victims by NUMA node.
func (r room) groups() [][]int {
	out := make([][]int, 2)
	for i, v := range r.victims {
		out[v.numa] = append(out[v.numa], i)
	}
	return out
}

func set(gone ...int) []int { return gone }

// A pod of 8 CPUs, and the victims that are evicted for it.
func TestVictims(t *testing.T) {
	for name, c := range map[string]struct {
		victims []Victim
		held    []held
		budgets []int
		want    []int
	}{
		"one large rather than two small": {[]Victim{{}, {}, {}}, []held{{0, 4, 0}, {0, 4, 0}, {1, 8, 0}}, nil, set(2)},
		"two small of low priority rather than one large of a higher one": {[]Victim{{Priority: 1}, {Priority: 1},
			{Priority: 2}},
			[]held{{0, 4, 0}, {0, 4, 0}, {1, 8, 0}}, nil, set(0, 1)},
		"the lowest, though others are on its NUMA node": {[]Victim{{Priority: 9}, {Priority: 1}, {Priority: 5}},
			[]held{{0, 4, 0}, {0, 8, 0}, {1, 8, 0}}, nil, set(1)},
		"the younger one of equals": {[]Victim{{Started: 7}, {Started: 9}, {Started: 8}},
			[]held{{0, 8, 0}, {1, 8, 0}, {0, 8, 0}}, nil, set(1)},
		"nobody whose budget is used up": {[]Victim{{Budgets: []int{0}}, {Priority: 5}},
			[]held{{0, 8, 0}, {1, 8, 0}}, []int{0}, set(1)},
		"whose budget allows one, if one is all": {[]Victim{{Budgets: []int{0}, Started: 2},
			{Budgets: []int{0}, Started: 1}}, []held{{0, 8, 0}, {1, 8, 0}}, []int{1}, set(0)},
		"a budget that is violated, where nothing else helps": {[]Victim{{Budgets: []int{0}}, {}},
			[]held{{0, 8, 0}, {1, 4, 0}}, []int{0}, set(0)},
		"nobody": {[]Victim{{}, {}}, []held{{0, 4, 0}, {1, 7, 0}}, nil, nil},
	} {
		r := room{victims: c.held, wants: 8}
		got, ok := Choose(Problem{Victims: c.victims, Budgets: c.budgets, Groups: r.groups(), Works: r.works})
		if ok != (c.want != nil) || !slices.Equal(got.Set, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got.Set, ok, c.want)
		}
		if ok && !got.Cheapest {
			t.Errorf("%s: not known to be the cheapest", name)
		}
	}
}

// Sixteen pods of one priority, eight on each NUMA node: all pods of one NUMA node are evicted, and no others.
func TestManyOfOnePriority(t *testing.T) {
	r := room{wants: 16}
	var victims []Victim
	for i := range 16 {
		r.victims = append(r.victims, held{numa: i % 2, cpus: 4})
		victims = append(victims, Victim{Started: int64(i), Size: 4})
	}
	got, ok := Choose(Problem{Victims: victims, Groups: r.groups(), Works: r.works})
	if want := set(9, 11, 13, 15); !ok || !slices.Equal(got.Set, want) {
		t.Errorf("%v, want the four youngest of NUMA node 1, %v", got.Set, want)
	}
}

// Many victims that do not help do not hide the one that does.
func TestOneAmongManyThatDoNotHelp(t *testing.T) {
	r := room{wants: 8, victims: []held{{1, 8, 0}}}
	victims := []Victim{{Priority: 5}}
	for range 60 {
		r.victims = append(r.victims, held{0, 0, 1})
		victims = append(victims, Victim{})
	}
	asked := 0
	got, ok := Choose(Problem{Victims: victims, Groups: r.groups(),
		Works: func(gone []int) bool { asked++; return r.works(gone) }})
	if !ok || !slices.Equal(got.Set, set(0)) {
		t.Errorf("%v, want the first", got.Set)
	}
	if asked > 2*maxTests {
		t.Errorf("%d sets were tried", asked)
	}
}

func problem(t *rapid.T, least, most int) Problem {
	p := Problem{Budgets: rapid.SliceOfN(rapid.IntRange(-1, 3), 0, 3).Draw(t, "budgets")}
	for range rapid.IntRange(least, most).Draw(t, "victims") {
		v := Victim{Priority: rapid.SampledFrom([]int32{-1 << 31, -5, 0, 1, 1 << 30}).Draw(t, "priority"),
			Started: rapid.Int64Range(0, 3).Draw(t, "started"),
			Size:    rapid.Int64Range(0, 9).Draw(t, "size")}
		for b := range p.Budgets {
			if rapid.IntRange(0, 3).Draw(t, "counts") == 0 {
				v.Budgets = append(v.Budgets, b)
			}
		}
		p.Victims = append(p.Victims, v)
	}
	return p
}

// furnish makes a node for the victims of a problem.
func furnish(t *rapid.T, p *Problem) {
	r := room{wants: rapid.IntRange(1, 20).Draw(t, "wants"), much: rapid.IntRange(0, 10).Draw(t, "much"),
		free: [2]int{rapid.IntRange(0, 4).Draw(t, "free 0"), rapid.IntRange(0, 4).Draw(t, "free 1")}}
	for i := range p.Victims {
		h := held{rapid.IntRange(0, 1).Draw(t, "numa"), rapid.IntRange(0, 8).Draw(t, "cpus"),
			rapid.IntRange(0, 3).Draw(t, "plain")}
		r.victims = append(r.victims, h)
		p.Victims[i].Size = int64(h.cpus)
	}
	p.Groups, p.Works = r.groups(), r.works
}

// brute returns the cost of the cheapest set that works, by trying every set.
func brute(p Problem) (best Cost, ok bool) {
	for m := uint(1); m < 1<<len(p.Victims); m++ {
		var gone []int
		for left := m; left != 0; left &= left - 1 {
			gone = append(gone, bits.TrailingZeros(left))
		}
		if c := p.Cost(gone); p.Works(gone) && (!ok || c.Compare(best) < 0) {
			best, ok = c, true
		}
	}
	return best, ok
}

func TestFewVictimsCostTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problem(t, 0, Exhaustive)
		if rapid.Bool().Draw(t, "arbitrary") {
			// Whether one set works implies nothing about another; only all victims together are known to be enough.
			salt := rapid.Uint64().Draw(t, "salt")
			p.Works = func(gone []int) bool {
				h := salt
				for _, i := range gone {
					h = (h ^ uint64(i+1)) * 0x9e3779b97f4a7c15
				}
				return len(gone) == len(p.Victims) || h>>60 == 0
			}
		} else {
			furnish(t, &p)
		}
		want, possible := brute(p)
		got, ok := Choose(p)
		if !ok && len(p.Victims) > 0 && !p.Works(everybody(p)) {
			return
		}
		if ok != possible || ok && (got.Cost.Compare(want) != 0 || !got.Cheapest || !p.Works(got.Set)) {
			t.Fatalf("%+v, %v, want %+v, %v", got, ok, want, possible)
		}
	})
}

func everybody(p Problem) (out []int) {
	for i := range p.Victims {
		out = append(out, i)
	}
	return out
}

// With many victims, no single one can be left out of the choice, and it costs no more than reprieving the most
// important ones first.
func TestManyVictims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problem(t, Exhaustive+1, 16)
		furnish(t, &p)
		got, ok := Choose(p)
		if ok != p.Works(everybody(p)) {
			t.Fatalf("chosen %v", ok)
		}
		if !ok || !p.Works(nil) && len(got.Set) == 0 {
			return
		}
		if !p.Works(got.Set) || got.Cost != p.Cost(got.Set) {
			t.Fatalf("%+v does not work", got)
		}
		for _, i := range got.Set {
			if rest := without(got.Set, i); len(rest) > 0 && p.Works(rest) {
				t.Fatalf("%+v: victim %d can be spared", got, i)
			}
		}
		gone := everybody(p)
		for _, i := range p.byImportance(gone) {
			if rest := without(gone, i); len(rest) > 0 && p.Works(rest) {
				gone = rest
			}
		}
		if got.Cost.Violations == 0 && p.Cost(gone).Violations == 0 && got.Cost.Compare(p.Cost(gone)) > 0 {
			t.Fatalf("%+v costs more than %+v", got, p.Cost(gone))
		}
	})
}
