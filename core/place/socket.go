package place

import (
	"math"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file implements distribute-cpus-across-numa together with align-by-socket, where the release prefers NUMA
// nodes of one socket (spreadInOneSocket). The rules differ from the rules in spread.go:
//
//   - Sets of NUMA nodes of one socket go before all other sets. Among sets of the same kind, the one that leaves the
//     free CPUs most even goes first.
//   - No NUMA node of a set gives a larger share than the one with the fewest free CPUs can give.
//   - The enumeration stops only at NUMA nodes of one socket after which all NUMA nodes are level.
//
// Such a choice is not a sum over NUMA nodes, so this file enumerates as the kubelet does. The work is counted.

// socketed is the best choice so far among sets of one size.
type socketed struct {
	combo, extra []int
	deviation    int64
	oneSocket    bool
}

// searchSockets is search where NUMA nodes of one socket are preferred. sockets has the socket of each NUMA node in
// s.free, or -1 for a NUMA node with CPUs of several sockets.
func (s *spreading) searchSockets(sockets []int, low, high int) (combo, extra []int, end ending) {
	for s.k = low; s.k <= high; s.k++ {
		b, stopped := socketed{deviation: math.MaxInt64}, false
		for set := firstSet(s.k); set != nil; set = following(set, len(s.free)) {
			if stopped = b.oneSocket && b.deviation == 0; stopped {
				break
			}
			deviation, extra, end := s.evenness(set)
			if end == failed {
				continue
			} else if end != picked {
				return nil, nil, end
			}
			one := oneSocket(sockets, set)
			if one && !b.oneSocket || one == b.oneSocket && deviation < b.deviation {
				b = socketed{set, extra, deviation, one}
			}
		}
		if b.combo != nil {
			return s.overwritten(b.combo, stopped), b.extra, picked
		}
	}
	return nil, nil, failed
}

// evenness returns the deviation of the free CPUs (see func deviation) after a set of NUMA nodes has given the wanted
// CPUs. extra are the NUMA nodes that give the groups which do not divide evenly. The end is failed if the set cannot
// give the CPUs.
func (s *spreading) evenness(set []int) (deviates int64, extra []int, end ending) {
	groups, share := 0, s.wanted/s.k
	for _, i := range set {
		groups, share = groups+s.free[i]/s.group, min(share, s.free[i]/s.group)
	}
	if !s.work.spend(8 * len(s.free)) {
		return 0, nil, exhausted
	} else if groups < s.wanted {
		return 0, nil, failed
	}
	free := slices.Clone(s.free)
	var givers []int // the NUMA nodes that have a whole group beyond their share
	for _, i := range set {
		if free[i] -= share * s.group; free[i] >= s.group {
			givers = append(givers, i)
		}
	}
	rest := s.wanted - share*s.k
	if rest == 0 {
		return deviationOf(free), nil, picked
	}
	deviates = math.MaxInt64
	for size := len(givers); size > 0; size-- {
		var best []int
		for sub := firstSet(size); sub != nil; sub = following(sub, len(givers)) {
			d, end := s.dealt(free, pickInts(givers, sub), rest)
			if end == failed {
				continue
			} else if end != picked {
				return 0, nil, end
			}
			if d < deviates {
				deviates, best = d, sub
			}
		}
		if best != nil { // what the enumeration remembers is overwritten by the sets that follow
			extra = pickInts(givers, lastOnes(best, ownMemory(size), len(givers)))
		}
	}
	return deviates, extra, picked
}

// dealt returns the deviation after the NUMA nodes in from have given rest groups in turns. free has the free CPUs of
// each NUMA node before that. The end is failed if the NUMA nodes in from have fewer CPUs.
func (s *spreading) dealt(free, from []int, rest int) (deviates int64, end ending) {
	if !s.work.spend(8*len(free) + 4*rest) {
		return 0, exhausted
	}
	free = slices.Clone(free)
	sum := 0
	for _, i := range from {
		sum += free[i]
	}
	if sum < rest*s.group {
		return 0, failed
	}
	for rest > 0 {
		before := rest
		for _, i := range from {
			if rest > 0 && free[i] >= s.group {
				free[i] -= s.group
				rest--
			}
		}
		if rest == before {
			return 0, endless // CPUs that belong to no whole group were counted
		}
	}
	return deviationOf(free), picked
}

// deviationOf returns the standard deviation of the numbers in free, the free CPUs of each NUMA node, in thousandths.
func deviationOf(free []int) int64 {
	var sum, squares int64
	for _, n := range free {
		sum, squares = sum+int64(n), squares+int64(n)*int64(n)
	}
	return deviation(len(free), sum, squares)
}

// firstSet returns the set of k that is enumerated first.
func firstSet(k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = i
	}
	return out
}

// oneSocket reports whether all NUMA nodes of a set are in the same socket.
func oneSocket(sockets, set []int) bool {
	for _, i := range set {
		if sockets[i] < 0 || sockets[i] != sockets[set[0]] {
			return false
		}
	}
	return true
}

// socketsOf returns the socket of each NUMA node, or -1 for a NUMA node with CPUs of several sockets.
func socketsOf(m *topo.Machine, numas []int) []int {
	out := make([]int, len(numas))
	for k, numa := range numas {
		out[k] = -1
		cpus := m.NUMAs()[numa].CPUs
		if g := m.GroupOf(topo.Sockets, cpus.Min()); cpus.SubsetOf(g.CPUs) {
			out[k] = g.ID
		}
	}
	return out
}
