package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// union counts the NUMA nodes on which the CPUs and devices of all containers are, together. It scores in the steps of
// LeastNUMANodes: 88 for one NUMA node, 76 for two, and 0 for a pod that has neither CPUs nor devices. The numa-aware
// plugin that was proposed for Volcano together with gpuDetail scores by the same number, with two differences:
//
//   - That plugin's score is relative to the candidates: 100 - 100*n/most. Here n is the count for the candidate, and
//     most is the largest count of all candidates, so a single candidate scores 0. The scale of union is fixed.
//   - In union, devices of every resource count, and a device without a NUMA node does not. In that plugin, such a
//     device counts on NUMA node 0.
func union(u *place.Usage, v place.Verdict) int64 {
	var on topo.Mask
	for i := range v.Holdings {
		h := v.Holdings[i]
		h.Memory = nil
		on |= h.NUMAs(u.Machine)
	}
	if on == 0 {
		return 0
	}
	return max(leastScore, Max-int64(on.Len())*step)
}
