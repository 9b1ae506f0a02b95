package place

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// enumeration looks at sets of NUMA nodes one after the other, as the kubelet does (cpumanager/cpu_assignment.go,
// takeByTopologyNUMADistributed). Tests compare it with the search that does not enumerate.
type enumeration struct {
	free    []int
	n       int // CPUs wanted
	group   int
	sets    int
	most    int // sets that may be looked at
	endless bool
}

// search is spreading.search by enumeration.
func (e *enumeration) search(least, most int) (combo, extra []int, end ending) {
	for k := least; k <= most; k++ {
		combo, extra := e.best(k)
		switch {
		case e.endless:
			return nil, nil, endless
		case combo != nil:
			return combo, extra, picked
		}
	}
	return nil, nil, failed
}

func (e *enumeration) best(k int) (combo, extra []int) {
	bestScore := math.MaxFloat64
	all := make([]int, len(e.free))
	for i := range all {
		all[i] = i
	}
	enumerate(all, k, func(c []int) bool {
		if bestScore == 0 {
			return false
		}
		if score, rest, ok := e.score(c); ok && score < bestScore {
			bestScore, combo, extra = score, c, rest
		}
		return !e.endless
	})
	return combo, extra
}

func (e *enumeration) look() {
	e.sets++
	e.endless = e.endless || e.sets > e.most
}

func (e *enumeration) score(combo []int) (score float64, extra []int, ok bool) {
	e.look()
	share := e.n / len(combo) / e.group * e.group
	total, groups := 0, 0
	for _, numa := range combo {
		total += e.free[numa]
		groups += e.free[numa] / e.group
		if e.free[numa] < share {
			return 0, nil, false
		}
	}
	if total < e.n || groups*e.group < e.n {
		return 0, nil, false
	}
	left := slices.Clone(e.free)
	var takers []int
	for _, numa := range combo {
		if left[numa] -= share; left[numa] >= e.group {
			takers = append(takers, numa)
		}
	}
	rest := e.n - share*len(combo)
	if rest == 0 {
		return deviates(left), nil, true
	}
	score = math.MaxFloat64
	for k := len(takers); k >= 1 && !e.endless; k-- {
		enumerate(takers, k, func(sub []int) bool {
			if d, ok := e.afterRest(sub, slices.Clone(left), rest); ok && d < score {
				score, extra = d, sub
			}
			return !e.endless
		})
	}
	return score, extra, true
}

func (e *enumeration) afterRest(sub, left []int, rest int) (float64, bool) {
	e.look()
	sum := 0
	for _, numa := range sub {
		sum += left[numa]
	}
	if sum < rest {
		return 0, false
	}
	for rest > 0 {
		moved := false
		for _, numa := range sub {
			if rest > 0 && left[numa] >= e.group {
				left[numa] -= e.group
				rest -= e.group
				moved = true
			}
		}
		if !moved {
			e.endless = true
			return 0, false
		}
	}
	return deviates(left), true
}

// deviates is the standard deviation as the kubelet computes it (standardDeviation, mean).
func deviates(left []int) float64 {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	n := float64(len(left))
	var sum, squares float64
	for _, x := range left {
		sum += float64(x)
	}
	mean := round(sum / n)
	for _, x := range left {
		squares += (float64(x) - mean) * (float64(x) - mean)
	}
	return round(math.Sqrt(squares / n))
}

// enumerate calls f with every k of the given numbers, in their order, until f returns false. It grows slices as the
// kubelet does, so sets share memory where the kubelet's sets do.
func enumerate(from []int, k int, f func([]int) bool) {
	if k < 1 {
		return
	}
	var pick func(k, start int, acc []int) bool
	pick = func(k, start int, acc []int) bool {
		if k == 0 {
			return f(acc)
		}
		for i := start; i <= len(from)-k; i++ {
			if !pick(k-1, i+1, append(acc, from[i])) {
				return false
			}
		}
		return true
	}
	pick(k, 0, []int{})
}

// spreadCase is a want for CPUs, and NUMA nodes with free CPUs.
type spreadCase struct {
	free        []int
	n, group    int
	least, most int
	sets        int // bound on what the kubelet may look at
}

func (c spreadCase) compare(t interface{ Fatalf(string, ...any) }) {
	e := enumeration{free: c.free, n: c.n, group: c.group, most: c.sets}
	combo, extra, end := e.search(c.least, c.most)
	w := work{}
	s := spreading{free: c.free, wanted: c.n / c.group, group: c.group, setLimit: float64(c.sets), work: &w}
	gotCombo, gotExtra, gotEnd := s.search(c.least, c.most)
	if gotEnd != end || !slices.Equal(gotCombo, combo) || !slices.Equal(gotExtra, extra) {
		t.Fatalf("%+v: got %v, rest from %v, end %d; enumeration of %d sets says %v, rest from %v, end %d",
			c, gotCombo, gotExtra, gotEnd, e.sets, combo, extra, end)
	}
	most := map[bool]int{true: maxWork / 10, false: maxWork / 4}[len(c.free) <= 12]
	if w.steps > most && len(c.free) <= 16 {
		t.Fatalf("%+v: %d steps", c, w.steps)
	}
}

// drawSpread draws a case in which a kubelet's enumeration ends.
func drawSpread(t *rapid.T) spreadCase {
	m := rapid.IntRange(1, 9).Draw(t, "NUMA nodes")
	group := rapid.SampledFrom([]int{1, 1, 2, 2, 4, 8}).Draw(t, "group")
	most := rapid.SampledFrom([]int{2, 4, 9, 40, 400}).Draw(t, "most free")
	whole := rapid.Bool().Draw(t, "whole groups")
	c := spreadCase{group: group, sets: rapid.SampledFrom([]int{maxSets, 20, 100, 500}).Draw(t, "sets")}
	sum := 0
	for range m {
		f := rapid.IntRange(1, most).Draw(t, "free")
		if whole {
			f = (f + group - 1) / group * group
		}
		c.free, sum = append(c.free, f), sum+f
	}
	if sum < group {
		c.free[0], sum = c.free[0]+group, sum+group
	}
	if rapid.Bool().Draw(t, "sorted") {
		slices.Sort(c.free)
	}
	wanted := rapid.IntRange(1, sum/group).Draw(t, "groups")
	c.n = wanted * group
	c.most = min(wanted, m)
	c.least = rapid.IntRange(1, c.most).Draw(t, "least")
	return c
}

func TestSpreadingAgreesWithEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drawSpread(t).compare(t) })
}

func FuzzSpreadingIsTheEnumeration(f *testing.F) {
	f.Add(uint8(1), uint16(5), uint8(1), []byte{4, 4, 9, 1})
	f.Add(uint8(2), uint16(11), uint8(0), []byte{3, 7, 7, 8, 2, 30})
	f.Fuzz(func(t *testing.T, group uint8, wanted uint16, least uint8, free []byte) {
		c := spreadCase{group: 1 + int(group)%8, sets: 20 << (group / 32)}
		sum := 0
		for _, x := range free[:min(len(free), 9)] {
			c.free, sum = append(c.free, 1+int(x)), sum+1+int(x)
		}
		if sum < c.group {
			t.Skip() // such a want is not spread
		}
		groups := 1 + int(wanted)%(sum/c.group)
		c.n, c.most = groups*c.group, min(groups, len(c.free))
		c.least = 1 + int(least)%c.most
		c.compare(t)
	})
}

// TestDeviationRoundsTheMean: the kubelet rounds the mean to thousandths before it subtracts it, which seldom matters.
// It matters here: without rounding, the deviation is 19.047.
func TestDeviationRoundsTheMean(t *testing.T) {
	free := []int{121, 79, 121, 79, 120, 80, 101}
	for range 7 {
		free = append(free, 119, 81)
	}
	var sum, squares int64
	for _, x := range free {
		sum, squares = sum+int64(x), squares+int64(x*x)
	}
	got, want := deviation(len(free), sum, squares), int64(math.Round(deviates(free)*1000))
	if got != want || want != 19048 {
		t.Errorf("%d thousandths, want %d", got, want)
	}
}
