package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// The scale of LeastNUMANodes: every NUMA node costs a step, and close NUMA nodes get half a step back. One NUMA node
// scores 88 or 94, two score 76 or 82, eight score 4 or 10.
const (
	step     = Max / 8
	maxSteps = 8
	// farAway is what scheduler-plugins uses for an unknown distance; no firmware reports more.
	farAway = 255
)

// fewest scores a pod by the number of NUMA nodes that it will use, and by whether they are as close together as
// possible. Under scope container, the container with the lowest score counts. The formula comes from
// scheduler-plugins (least_numa.go), with these differences:
//
//   - The NUMA nodes are those of the verdict. scheduler-plugins finds the least number of NUMA nodes that would do,
//     and of these sets uses the lowest. The kubelet need not choose it, and other resources may forbid it.
//   - A combination of NUMA nodes need not list every resource that the pod asks for. In scheduler-plugins, one
//     resource without NUMA nodes, such as ephemeral-storage, excludes all combinations, and all nodes score 0.
//   - Every node has the same scale. In scheduler-plugins a step is 100/max-allowable-numa-nodes: the same pod on
//     one NUMA node scores more on a node that allows more, and beyond 50 there is no half step left. Here, sets of
//     more than 8 NUMA nodes all score alike.
//   - Closeness is not searched in all sets of NUMA nodes, since there are 2 to the power of their number.
func fewest(u *place.Usage, v place.Verdict) int64 {
	var cache leastSums
	if u.Rules.Topology.Scope == place.PerPod {
		return scoreSet(u.Machine, v.NUMAs(u.Machine), &cache)
	}
	score := int64(0)
	for i := range v.Holdings {
		if s := scoreSet(u.Machine, v.Holdings[i].NUMAs(u.Machine), &cache); s > 0 && (score == 0 || s < score) {
			score = s
		}
	}
	return score
}

// scoreSet returns the score of a set of NUMA nodes, 0 for the empty set.
func scoreSet(m *topo.Machine, used topo.Mask, cache *leastSums) int64 {
	n := int64(used.Len())
	if n == 0 {
		return 0
	}
	score, half := max(leastScore, Max-n*step), int64(step/2)
	if n > maxSteps {
		score, half = leastScore, 1
	}
	if distanceSum(m, used) <= cache.leastSum(m, used) {
		score += half
	}
	return score
}

// distance returns the distance between two NUMA nodes, or farAway if the machine does not report it.
func distance(m *topo.Machine, i, j int) int64 {
	if row := m.NUMAs()[i].Distances; j < len(row) {
		return int64(row[j])
	}
	return farAway
}

// distanceSum returns the sum of the distances between all pairs of NUMA nodes. Pairs of a NUMA node with itself
// count.
func distanceSum(m *topo.Machine, on topo.Mask) int64 {
	total, pairs := distances(m, on)
	n := int64(on.Len())
	return total + farAway*(n*n-pairs)
}

// leastSums caches the results of func leastSum by the number of NUMA nodes: at index 0 for sets of any NUMA nodes,
// at index 1 for sets of NUMA nodes with CPUs.
type leastSums [2][topo.MaxNUMAs + 1]int64

// leastSum is func leastSum, computed once for each number of NUMA nodes.
func (c *leastSums) leastSum(m *topo.Machine, used topo.Mask) int64 {
	kind := 0
	if used&^m.WithCPUs() == 0 {
		kind = 1
	}
	n := used.Len()
	if c[kind][n] == 0 { // a sum that is really 0 is computed again
		c[kind][n] = leastSum(m, used)
	}
	return c[kind][n]
}

// leastSum returns the least sum found for as many NUMA nodes as there are in used. It grows a set from every NUMA
// node by adding the one that is closest to all in the set. For one and two NUMA nodes, and if distances form a tree
// (sockets, dies), the result is the minimum; otherwise it may be slightly higher. NUMA nodes without CPUs are no
// alternative for those with CPUs.
func leastSum(m *topo.Machine, used topo.Mask) int64 {
	among := m.All()
	if used&^m.WithCPUs() == 0 {
		among = m.WithCPUs()
	}
	if used.Len() == among.Len() {
		return distanceSum(m, used)
	}
	best := int64(-1)
	for from := among; from != 0; {
		var i int
		i, from = next(from)
		if s := grow(m, among, i, used.Len()); best < 0 || s < best {
			best = s
		}
	}
	return best
}

// grow returns the sum of distances in a set of count NUMA nodes, which grows from the one at position first: it adds
// the closest NUMA node of among, again and again.
func grow(m *topo.Machine, among topo.Mask, first, count int) int64 {
	var to [topo.MaxNUMAs]int64 // by position: what this NUMA node would add to the sum
	for rest := among; rest != 0; {
		var j int
		j, rest = next(rest)
		to[j] = distance(m, j, j)
	}
	total := int64(0)
	for at := first; ; {
		total += to[at]
		among &^= 1 << uint(at)
		if count--; count == 0 {
			return total
		}
		nearest := -1
		for rest := among; rest != 0; {
			var j int
			j, rest = next(rest)
			to[j] += distance(m, at, j) + distance(m, j, at)
			if nearest < 0 || to[j] < to[nearest] {
				nearest = j
			}
		}
		at = nearest
	}
}
