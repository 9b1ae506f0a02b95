package place

import "math"

// This file says how far the kubelet's enumeration of sets of NUMA nodes gets (spread.go): how many sets it
// looks at, and whether it stops for good at one of them.

// tally counts sets of NUMA nodes that can give the CPUs, and with them all subsets of their members that have
// a group left: what the kubelet looks at for each such set.
type tally struct {
	s        *spreading
	sets     []float64 // from an index on, by members to choose, by groups that they must have to spare
	subsets  []float64
	row, all int
}

// count returns how many sets the kubelet looks at for k NUMA nodes: all of them, or those up to the one after
// which all NUMA nodes are level. It is not a number where counting needs more work than is left.
func (s *spreading) count(level []int) (n float64) {
	t := tally{s: s, row: s.rest + 1, all: (s.rest + 1) * (s.k + 1)}
	if !s.work.spend(2 * (len(s.free) + 1) * t.all) {
		return math.NaN()
	}
	t.fill()
	if level == nil {
		return choose(len(s.free), s.k) + t.beyond(0, s.k, s.rest, 1)
	}
	start, prefix, short := 0, 1.0, s.rest
	for j, last := range level {
		for i := start; i < last; i++ {
			n += choose(len(s.free)-1-i, s.k-1-j)
			if c := s.spare(i); c >= 0 {
				n += t.beyond(i+1, s.k-1-j, short-c, prefix*subsets(c))
			}
		}
		start, prefix, short = last+1, prefix*subsets(s.spare(last)), short-s.spare(last)
	}
	if s.rest == 0 {
		prefix = 1
	}
	return n + prefix
}

// subsets returns how many times more subsets a set has with a member that has so many groups left.
func subsets(spare int) float64 {
	if spare > 0 {
		return 2
	}
	return 1
}

func (t *tally) fill() {
	n := len(t.s.free)
	t.sets, t.subsets = make([]float64, (n+1)*t.all), make([]float64, (n+1)*t.all)
	t.sets[n*t.all], t.subsets[n*t.all] = 1, 1
	for i := n - 1; i >= 0; i-- {
		from, to := (i+1)*t.all, i*t.all
		copy(t.sets[to:to+t.all], t.sets[from:])
		copy(t.subsets[to:to+t.all], t.subsets[from:])
		c := t.s.spare(i)
		for k := t.row; c >= 0 && k < t.all; k++ {
			behind := from + k - t.row - min(c, k%t.row)
			t.sets[to+k] += t.sets[behind]
			t.subsets[to+k] += subsets(c) * t.subsets[behind]
		}
	}
}

// beyond returns how many more sets are looked at because sets can give the CPUs: those of so many members
// from an index on that have groups to spare, each together with members whose subsets are counted already.
func (t *tally) beyond(from, members, short int, prefix float64) float64 {
	if t.s.rest == 0 {
		return 0
	}
	at := from*t.all + members*t.row + max(0, short)
	return prefix*t.subsets[at] - t.sets[at]
}

// loops reports whether the kubelet comes to a set at which it does not stop. It adds up the free CPUs of a
// subset to see whether they are enough, but takes whole groups of them: CPUs that belong to no whole group,
// as half reserved cores leave them, make it go round for ever. ok is false where more work is needed than is
// left.
func (s *spreading) loops(level []int) (is, ok bool) {
	halves := false
	for i, f := range s.free {
		halves = halves || f%s.group > 0 && s.spare(i) > 0
	}
	if s.rest == 0 || !halves {
		return false, true
	}
	if level == nil {
		return s.loopsAmong(nil, 0)
	}
	start := 0
	for j, last := range level {
		for i := start; i < last; i++ {
			if is, ok = s.loopsAmong(append(level[:j:j], i), i+1); is || !ok {
				return is, ok
			}
		}
		start = last + 1
	}
	return s.loopsAmong(level, len(s.free))
}

// loopsAmong is loops for the sets that have some members, and others from an index on.
func (s *spreading) loopsAmong(members []int, from int) (is, ok bool) {
	row := s.rest // by groups of the subset, fewer than are wanted
	all := row * (s.rest + 1)
	if !s.work.spend(4 * (len(members) + len(s.free) - from) * (s.k + 1) * all) {
		return false, false
	}
	// The most CPUs without a group that subsets have, by members of the set, by the groups that these have to
	// spare, as far as they count, and by those of the subset.
	most := make([]int, (s.k+1)*all)
	for k := range most {
		most[k] = -1
	}
	most[0] = 0
	add := func(i int, must bool) {
		c, half := s.spare(i), s.free[i]%s.group
		for k := len(most) - 1; k >= 0; k-- {
			had := most[k]
			if must {
				most[k] = -1
			}
			if had < 0 || k+all >= len(most) || c < 0 {
				continue
			}
			spare, given := k%all/row, k%row
			to := k + all + (min(s.rest, spare+c)-spare)*row
			most[to] = max(most[to], had)
			if c > 0 && given+c < s.rest {
				most[to+c] = max(most[to+c], had+half)
			}
		}
	}
	for _, i := range members {
		add(i, true)
	}
	for i := from; i < len(s.free); i++ {
		add(i, false)
	}
	for given, half := range most[s.k*all+s.rest*row:][:row] {
		if given > 0 && half >= s.group*(s.rest-given) {
			return true, true
		}
	}
	return false, true
}
