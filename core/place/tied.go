package place

import "github.com/tenon-numa/tenon/core/topo"

// Tied returns the NUMA nodes of everything in holdings that is tied to NUMA nodes: CPUs, pinned memory, and devices. A
// device of several NUMA nodes counts for each of them. drawn is a resource whose devices the kubelet takes by
// chance, so that their NUMA nodes are not certain, or "".
func Tied(m *topo.Machine, hs []Holding) (out topo.Mask, drawn string) {
	out = Exclusive(m, hs)
	for _, h := range hs {
		for _, b := range h.Devices {
			if out |= b.NUMAs; b.Loose || b.Free && b.NUMAs.Len() > 1 {
				drawn = b.Resource
			}
		}
	}
	return out, drawn
}
