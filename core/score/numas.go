package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// The scale of LeastNUMANodes: every NUMA node takes a step, being close gives half a step back. One NUMA node is
// 88 or 94, two are 76 or 82, eight are 4 or 10.
const (
	step      = Max / 8
	mostSteps = 8
	// farAway is the distance that scheduler-plugins takes where none is known; no firmware reports more.
	farAway = 255
)

// fewest scores by how many NUMA nodes the widest of the pod's containers will use, or the pod as a whole
// where the scope is the pod, and by whether they are as close as that many can be. The formula is that
// of scheduler-plugins (least_numa.go), the rest is different:
//
//   - The NUMA nodes are those of the verdict. There they are the lowest of the fewest that would do, which
//     the kubelet need not choose, and which other resources may forbid.
//   - No combination need list every resource that the pod asks for. There one resource without NUMA nodes,
//     such as ephemeral-storage, lets no combination do, and all nodes score 0.
//   - Every node has the same scale. There a step is 100/max-allowable-numa-nodes: the same pod on one
//     NUMA node scores more on a node that allows more, and beyond 50 there is no half step left. Sets of more
//     than 8 NUMA nodes are all alike here.
//   - Closeness is not looked for in all sets of NUMA nodes, of which there are 2 to their number.
func fewest(u *place.Usage, v place.Verdict) int64 {
	var known closests
	if u.Rules.Topology.Scope == place.PerPod {
		return width(u.Machine, v.NUMAs(u.Machine), &known)
	}
	score := int64(0)
	for i := range v.Holdings {
		if s := width(u.Machine, v.Holdings[i].NUMAs(u.Machine), &known); s > 0 && (score == 0 || s < score) {
			score = s
		}
	}
	return score
}

// width scores a set of NUMA nodes, 0 for none.
func width(m *topo.Machine, used topo.Mask, known *closests) int64 {
	n := int64(used.Len())
	if n == 0 {
		return 0
	}
	score, half := max(leastScore, Max-n*step), int64(step/2)
	if n > mostSteps {
		score, half = leastScore, 1
	}
	if sum(m, used) <= known.closest(m, used) {
		score += half
	}
	return score
}

// distance returns the distance between two NUMA nodes, or farAway.
func distance(m *topo.Machine, i, j int) int64 {
	if row := m.NUMAs()[i].Distances; j < len(row) {
		return int64(row[j])
	}
	return farAway
}

// sum returns the sum of the distances between all pairs of NUMA nodes, a NUMA node and itself included.
func sum(m *topo.Machine, on topo.Mask) int64 {
	total, pairs := distances(m, on)
	n := int64(on.Len())
	return total + farAway*(n*n-pairs)
}

// closests remembers least sums of distances by the number of NUMA nodes, of all and of those with CPUs.
type closests [2][topo.MaxNUMAs + 1]int64

// closest is the function of that name, worked out once for each number of NUMA nodes.
func (c *closests) closest(m *topo.Machine, used topo.Mask) int64 {
	kind := 0
	if used&^m.WithCPUs() == 0 {
		kind = 1
	}
	n := used.Len()
	if c[kind][n] == 0 { // a sum that is 0 indeed is worked out again
		c[kind][n] = closest(m, used)
	}
	return c[kind][n]
}

// closest returns the least sum that was found for as many NUMA nodes as there are in used. From every NUMA node a
// set is grown by the one that is closest to all in it. For one and two NUMA nodes, and where distances are
// those of a tree (sockets, dies), that is the least there is; elsewhere a set may pass for closest that
// is not quite. NUMA nodes without CPUs are no alternative for those with.
func closest(m *topo.Machine, used topo.Mask) int64 {
	among := m.All()
	if used&^m.WithCPUs() == 0 {
		among = m.WithCPUs()
	}
	if used.Len() == among.Len() {
		return sum(m, used)
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

// grow returns the sum of a set of count NUMA nodes that is grown from one.
func grow(m *topo.Machine, among topo.Mask, first, count int) int64 {
	var to [topo.MaxNUMAs]int64 // by position: what it adds to the sum
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
