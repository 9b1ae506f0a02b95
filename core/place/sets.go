package place

import "math"

// This file computes how far the kubelet's enumeration of sets of NUMA nodes gets (spread.go): how many sets it looks
// at, and whether it loops forever at one of them.

// tally counts the sets of NUMA nodes that can give the CPUs, and for each of them the subsets of members that have a
// group left. The kubelet looks at all of them.
type tally struct {
	s        *spreading
	sets     []float64 // number of sets, by first index, members to choose, and groups that these must have to spare
	subsets  []float64
	row, all int // entries of sets for one number of members, and for one first index
}

// count returns how many sets of k NUMA nodes the kubelet looks at. It looks at all, or stops at the set in level:
// after that set, all NUMA nodes have equally many free CPUs. The result is NaN if counting needs more work than is
// left.
func (s *spreading) count(level []int) (n float64) {
	t := tally{s: s, row: s.rest + 1, all: (s.rest + 1) * (s.k + 1)}
	if !s.work.spend(2 * (len(s.free) + 1) * t.all) {
		return math.NaN()
	}
	t.fill()
	if level == nil {
		return choose(len(s.free), s.k) + t.beyond(0, s.k, s.rest, 1)
	}
	// Before level come the sets that begin with its first j members, and then have a NUMA node i before its next
	// member.
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

// subsets returns the factor by which a member with spare groups left multiplies the number of subsets of its set.
func subsets(spare int) float64 {
	if spare > 0 {
		return 2
	}
	return 1
}

// fill computes sets and subsets from the last NUMA node to the first: the sets without NUMA node i, and the sets
// with it.
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

// beyond returns what the subsets add to the number of sets that the kubelet looks at: for every set that can give
// the CPUs, the number of its subsets less one. The sets consist of members chosen before, which have prefix subsets,
// and of the given number of further members with indexes of at least from. The further members must have short
// groups to spare.
func (t *tally) beyond(from, members, short int, prefix float64) float64 {
	if t.s.rest == 0 {
		return 0
	}
	at := from*t.all + members*t.row + max(0, short)
	return prefix*t.subsets[at] - t.sets[at]
}

// loops reports whether the kubelet comes to a set at which it loops forever, before it stops at the set in level.
// The kubelet adds up the free CPUs of a subset to see whether they are enough, but takes whole groups of them. CPUs
// that belong to no whole group, as half reserved cores leave them, make it loop. ok is false if the answer needs
// more work than is left.
func (s *spreading) loops(level []int) (forever, ok bool) {
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
			if forever, ok = s.loopsAmong(append(level[:j:j], i), i+1); forever || !ok {
				return forever, ok
			}
		}
		start = last + 1
	}
	return s.loopsAmong(level, len(s.free))
}

// loopsAmong is loops for the sets that contain all of members and otherwise only NUMA nodes with an index of at
// least from.
func (s *spreading) loopsAmong(members []int, from int) (forever, ok bool) {
	row := s.rest // entries for the groups that a subset has to spare: 0 to s.rest-1
	all := row * (s.rest + 1)
	if !s.work.spend(4 * (len(members) + len(s.free) - from) * (s.k + 1) * all) {
		return false, false
	}
	// The most CPUs outside whole groups that subsets have. The index has the number of members of the set, the groups
	// that these have to spare (capped at the rest), and the groups that members of the subset have to spare.
	outside := make([]int, (s.k+1)*all)
	for k := range outside {
		outside[k] = -1
	}
	outside[0] = 0
	add := func(i int, must bool) {
		c, half := s.spare(i), s.free[i]%s.group
		for k := len(outside) - 1; k >= 0; k-- {
			had := outside[k]
			if must {
				outside[k] = -1
			}
			if had < 0 || k+all >= len(outside) || c < 0 {
				continue
			}
			spare, given := k%all/row, k%row
			to := k + all + (min(s.rest, spare+c)-spare)*row
			outside[to] = max(outside[to], had)
			if c > 0 && given+c < s.rest {
				outside[to+c] = max(outside[to+c], had+half)
			}
		}
	}
	for _, i := range members {
		add(i, true)
	}
	for i := from; i < len(s.free); i++ {
		add(i, false)
	}
	for given, half := range outside[s.k*all+s.rest*row:][:row] {
		if given > 0 && half >= s.group*(s.rest-given) {
			return true, true
		}
	}
	return false, true
}
