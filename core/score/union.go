package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// union scores by how many NUMA nodes the CPUs and devices of all containers are on together, in the steps of
// LeastNUMANodes: 88 for one, 76 for two; 0 where the pod has neither. The numa-aware plugin that was proposed for
// Volcano with gpuDetail scores by the same number, with these differences:
//
//   - Its score is relative to the candidates: 100 - 100*n/most, where n is the node's number and most the largest
//     among the candidates. So a single candidate scores 0. Here the scale is fixed.
//   - Devices of every resource count, and a device without a NUMA node counts nowhere. There it counts on NUMA node 0.
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
