package place

import (
	"math"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file implements distribute-cpus-across-numa (KEP-2902, cpumanager/cpu_assignment.go,
// takeByTopologyNUMADistributed). The rules are:
//
//   - The CPUs are spread over the fewest NUMA nodes that can each give an even share in whole groups.
//   - Groups that do not divide evenly go, one after the other in turns, to some of these NUMA nodes.
//   - The choice is the first one, in the order of enumeration, after which the free CPUs deviate least
//     from their mean. The kubelet rounds the deviation to thousandths, so different choices may be equal.
//   - Where no NUMA nodes can give an even share, the CPUs are packed.
//
// The kubelet enumerates all sets of NUMA nodes, and for each of them all its subsets. The sum of the free
// CPUs is the same after every choice, so the deviation depends on the sum of their squares alone. That sum is
// additive, which is why deal.go finds the same choice by dynamic programming.

// maxSets bounds the sets of NUMA nodes that a kubelet may look at for one container. 8 NUMA nodes have fewer than
// 7,000 such sets. A kubelet takes some ten seconds for a million sets, with its lock held, and years for all sets of
// 36 NUMA nodes. Beyond the bound the kubelet counts as endless.
const maxSets = 1 << 20

// takeSpread picks n CPUs out of a set, spread over NUMA nodes. group is the number of CPUs that stay together: the
// CPUs of a core under full-pcpus-only, else 1. If no NUMA nodes can give even shares, the CPUs are packed.
func (u *Usage) takeSpread(from cpuSet, n, group int, w *work) (cpuSet, ending) {
	p := u.picker(from, n, *w)
	if n > 0 && n%group == 0 && n <= p.free.Len() {
		var numas []int // positions, in the order in which the kubelet sorts them
		s := spreading{wanted: n / group, group: group, setLimit: maxSets, work: w}
		for _, x := range p.numas() {
			numas, s.free = append(numas, x.ID), append(s.free, x.free)
		}
		*w = p.work
		low, high := spreadSpan(p.m, len(numas), n, group)
		search := s.search
		if r := &u.Rules; r.CPU.AlignBySocket && r.Release.has(spreadInOneSocket) {
			sockets := socketsOf(p.m, numas)
			search = func(low, high int) (combo, extra []int, end ending) { return s.searchSockets(sockets, low, high) }
		}
		combo, extra, end := search(low, high)
		switch end {
		case picked:
			return u.hand(&p, pickInts(numas, combo), pickInts(numas, extra), n, group, w)
		case endless, exhausted:
			return cpuSet{}, end
		}
	}
	return u.takePacked(from, n, false, w)
}

// pickInts returns the entries of values at the given indices.
func pickInts(values, at []int) []int {
	out := make([]int, len(at))
	for i, k := range at {
		out[i] = values[k]
	}
	return out
}

// spreadSpan returns the fewest and the most NUMA nodes over which the kubelet tries to spread n CPUs. free is the
// number of NUMA nodes that have free CPUs (rangeNUMANodesNeededToSatisfy).
func spreadSpan(m *topo.Machine, free, n, group int) (low, high int) {
	groups := (m.CPUs().Len()-1)/group + 1
	perNUMA := (groups-1)/m.WithCPUs().Len() + 1
	wanted := (n-1)/group + 1
	return (wanted-1)/perNUMA + 1, min(wanted, free)
}

// spreading searches for the NUMA nodes to spread CPUs over. A NUMA node is its index in free.
type spreading struct {
	free     []int   // free CPUs of each NUMA node, in the order in which the kubelet enumerates them
	wanted   int     // groups of CPUs that the container wants
	group    int     // CPUs of a group
	setLimit float64 // the most sets that the kubelet may look at
	work     *work

	// The fields below are set for each number k of NUMA nodes that the search tries.

	k int
	// share is the number of groups that each NUMA node gives, rest the number of groups that remain.
	share, rest int
}

// search returns the NUMA nodes that give a share each (combo), and which of these give the remaining groups (extra).
// It tries numbers of NUMA nodes from low to high. The end is failed if no NUMA nodes can give even shares.
func (s *spreading) search(low, high int) (combo, extra []int, end ending) {
	sets := 0.0
	for s.k = low; s.k <= high; s.k++ {
		s.share, s.rest = s.wanted/s.k, s.wanted%s.k
		if s.feasible() {
			return s.best(sets)
		}
		if sets += choose(len(s.free), s.k); sets > s.setLimit {
			return nil, nil, endless
		}
	}
	return nil, nil, failed
}

// spare returns the groups that a NUMA node has beyond its share; negative where it cannot give the share.
func (s *spreading) spare(i int) int { return s.free[i]/s.group - s.share }

// feasible reports whether some k NUMA nodes can give their shares and the rest.
func (s *spreading) feasible() bool {
	groups := make([]int, len(s.free))
	for i, f := range s.free {
		groups[i] = f / s.group
	}
	slices.Sort(groups)
	top := groups[len(groups)-s.k:]
	sum := 0
	for _, n := range top {
		sum += n
	}
	return top[0] >= s.share && sum >= s.wanted
}

// best returns the NUMA nodes that the kubelet chooses among the sets of k. Some k NUMA nodes must be able to give
// the CPUs. sets is the number of sets that the kubelet has looked at already. best first finds out whether the
// enumeration comes to an end (count, loops), then finds the chosen set, the NUMA nodes that give remaining groups,
// and what later sets overwrite.
func (s *spreading) best(sets float64) (combo, extra []int, end ending) {
	level := s.level()
	ahead := choose(len(s.free), s.k) // an upper bound; count computes the exact number
	if s.rest > 0 {
		ahead *= math.Pow(2, float64(s.k))
	}
	if sets+ahead > s.setLimit {
		if sets += s.count(level); math.IsNaN(sets) {
			return nil, nil, exhausted
		} else if sets > s.setLimit {
			return nil, nil, endless
		}
	}
	if loops, ok := s.loops(level); !ok {
		return nil, nil, exhausted
	} else if loops {
		return nil, nil, endless
	}
	if level != nil {
		combo = level
	} else if combo = s.firstBest(); combo == nil {
		return nil, nil, exhausted
	}
	if extra, end = s.extra(combo); end != picked {
		return nil, nil, end
	}
	return s.overwritten(combo, level != nil), extra, picked
}

// level returns the set of k NUMA nodes whose choice leaves all NUMA nodes with equally many free CPUs; nil if there
// is none. The kubelet stops its enumeration at that set.
func (s *spreading) level() (combo []int) {
	sum := -s.wanted * s.group
	for _, f := range s.free {
		sum += f
	}
	each := sum / len(s.free)
	if each*len(s.free) != sum {
		return nil
	}
	most := 0
	for i, f := range s.free {
		if f == each {
			continue
		}
		x := f - each - s.share*s.group
		if x < 0 || x%s.group != 0 {
			return nil
		}
		combo, most = append(combo, i), max(most, x/s.group)
	}
	if len(combo) != s.k || !s.turns(combo, each, most) {
		return nil
	}
	return combo
}

// turns reports whether every NUMA node of combo ends up with each free CPUs. The kubelet takes the remaining groups
// from some of the NUMA nodes in turns; most is the largest number of groups that one of them gives.
func (s *spreading) turns(combo []int, each, most int) bool {
	low := false // some NUMA node gave nothing in the last turn, although it had a group
	for _, i := range combo {
		switch x := (s.free[i]-each)/s.group - s.share; {
		case x == 0 || x == s.spare(i) && x < most:
		case x == most-1:
			low = true
		case x < most || low:
			return false
		}
	}
	return true
}

// choose returns how many subsets of k members a set of n has.
func choose(n, k int) float64 {
	out := 1.0
	for i := range k {
		out = out * float64(n-i) / float64(i+1)
	}
	return math.Round(out)
}

// deviation returns the standard deviation of n numbers, in thousandths, given their sum and the sum of their squares.
// The kubelet rounds mean and result to thousandths.
func deviation(n int, sum, squares int64) int64 {
	mean := int64(math.Round(float64(sum) / float64(n) * 1000))
	// The sum of (1000*x - mean)^2 over all x.
	all := 1_000_000*squares - 2000*mean*sum + int64(n)*mean*mean
	return int64(math.Round(math.Sqrt(float64(all) / float64(n))))
}

// overwritten returns the set that the kubelet really uses instead of the set that it chose. Its enumeration returns
// slices that share memory, so later sets overwrite the end of a remembered set. level is true if the enumeration
// stopped at combo (see func level): only one more set is then made.
func (s *spreading) overwritten(combo []int, level bool) []int {
	own := ownMemory(s.k)
	if !level {
		return lastOnes(combo, own, len(s.free))
	}
	if next := following(combo, len(s.free)); next != nil && slices.Equal(next[:own], combo[:own]) {
		return next
	}
	return combo
}

// ownMemory returns how many leading members of a set of k are not overwritten by later sets. Go's append doubles the
// capacity of a full slice, so sets share memory from one doubling to the next.
func ownMemory(k int) int {
	own := min(k, 2)
	for n := 3; n <= k; n = 2*n - 1 {
		own = n
	}
	return own
}

// lastOnes returns the set with its first members, own in number, and with the last of the numbers 0..n-1 in place of
// the others.
func lastOnes(set []int, own, n int) []int {
	out := slices.Clone(set[:own])
	for i := n - (len(set) - own); i < n; i++ {
		out = append(out, i)
	}
	return out
}

// following returns the set that comes after this one in the enumeration of sets of the numbers 0..n-1; nil if this
// one is the last.
func following(set []int, n int) []int {
	out := slices.Clone(set)
	for i := len(set) - 1; i >= 0; i-- {
		if out[i] < n-len(set)+i {
			out[i]++
			for j := i + 1; j < len(set); j++ {
				out[j] = out[j-1] + 1
			}
			return out
		}
	}
	return nil
}

// hand takes the even share of every NUMA node of combo, then the remaining groups from the NUMA nodes of extra.
func (u *Usage) hand(p *picker, combo, extra []int, n, group int, w *work) (cpuSet, ending) {
	share := n / len(combo) / group * group
	if u.Rules.Release.has(sharesFit) {
		for _, numa := range combo {
			share = min(share, p.free.AndLen(p.m.NUMAs()[numa].CPUs)/group*group)
		}
	}
	give := func(numa, count int) ending {
		p.rest.Meet(&p.free, p.m.NUMAs()[numa].CPUs)
		got, end := u.takePacked(p.rest.Set(), count, false, w)
		p.take(got)
		return end
	}
	for _, numa := range combo {
		if give(numa, share) == exhausted {
			return cpuSet{}, exhausted
		}
	}
	for rest := n - share*len(combo); rest > 0; {
		before := rest
		for _, numa := range extra {
			if rest > 0 && p.free.AndLen(p.m.NUMAs()[numa].CPUs) >= group {
				if give(numa, group) == exhausted {
					return cpuSet{}, exhausted
				}
				rest -= group
			}
		}
		if rest == before {
			return cpuSet{}, endless
		}
	}
	return p.picked.Set(), pickedIf(p.need == 0)
}
