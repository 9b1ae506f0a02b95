package evict

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// maxGroups bounds the sets of NUMA nodes that are searched for room.
const maxGroups = 64

// Groups returns sets of victims that are likely to be enough, for Problem.Groups. For every set of at most width
// NUMA nodes it returns two. The first has the victims that hold something there. The second also has the victims
// that hold nothing on any NUMA node, since their plain amounts may be needed. At most maxGroups sets of NUMA nodes
// are used, small ones first; on large machines only single NUMA nodes. on has the NUMA nodes of each victim's
// holdings.
func Groups(m *topo.Machine, on []topo.Mask, width int) (out [][]int) {
	all := m.All()
	for _, mask := range masks(all, max(1, width)) {
		var there, alsoNowhere []int
		for i, held := range on {
			if held&mask != 0 {
				there = append(there, i)
			}
			if held&mask != 0 || held == 0 {
				alsoNowhere = append(alsoNowhere, i)
			}
		}
		out = append(out, there, alsoNowhere)
	}
	return out
}

// masks returns the sets of at most width NUMA nodes, small ones first; on large machines, only single NUMA nodes.
func masks(all topo.Mask, width int) (out []topo.Mask) {
	const large = 10 // on machines with more NUMA nodes, pairs and larger sets are left out
	for w := 1; w <= width && (w == 1 || all.Len() <= large); w++ {
		out = append(out, all.Choose(w, maxGroups)...)
	}
	return out[:min(len(out), maxGroups)]
}

// Size returns the part of a machine that some holdings take, for Victim.Size: millionths of each resource, added up.
func Size(m *topo.Machine, hs []place.Holding) (out int64) {
	part := func(n, total int64) {
		if total > 0 {
			out += int64(float64(n) / float64(total) * 1e6)
		}
	}
	bytes := map[string]int64{}
	for _, n := range m.NUMAs() {
		for _, k := range m.Kinds() {
			bytes[k] += n.Capacity(k)
		}
	}
	for _, h := range hs {
		part(int64(h.CPUs.Len()), int64(m.CPUs().Len()))
		for _, b := range h.Memory {
			part(b.Bytes, bytes[b.Kind])
		}
		for _, d := range h.Devices {
			r, _ := m.Resource(d.Resource)
			part(int64(len(d.IDs)), int64(len(r.Devices)))
		}
	}
	return out
}
