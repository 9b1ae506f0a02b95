package place

import (
	"cmp"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file finds out which machines a kubelet cannot serve under some rules, even if nothing is held. All facts are
// from Kubernetes 1.36:
//
//  - A topology manager does not start on more NUMA nodes than max-allowable-numa-nodes, by default 8
//    (topologymanager/topology_manager.go, NewManager). Policy none has no such bound.
//  - A set of NUMA nodes is a mask of 64 bits. A NUMA node id outside 0..63 makes no mask
//    (topologymanager/bitmask/bitmask.go, Add), and callers do not look at the error. With every policy but
//    none, the mask of all NUMA nodes is then a nil pointer when the first pod is admitted, even one that
//    asks for nothing (topologymanager/numa_info.go, DefaultAffinityMask; policy.go, mergePermutation).
//    With policy none, only the static memory manager makes masks, for Guaranteed pods
//    (memorymanager/policy_static.go, calculateHints). The CPU manager makes none under policy none.
//  - The static memory manager tries all sets of NUMA nodes. 2^17 sets take a quarter of a second, and each
//    NUMA node doubles that.
//  - prefer-closest-numa-nodes keeps distances by position and looks them up by id (topologymanager/
//    numa_info.go, CalculateAverageFor). The kubelet does not start if the machine reports no distances
//    (NewNUMAInfo).

// maxNUMAID is the highest id of a NUMA node that a kubelet's masks can hold.
const maxNUMAID = 63

// maxMemorySets is the most NUMA nodes for which a memory or device manager may try all sets. 20 NUMA nodes have a
// million sets, which is also the bound for CPUs (maxSets). With more NUMA nodes, the kubelet's search counts as
// endless.
const maxMemorySets = 20

// Obstacles returns why a kubelet with these rules cannot serve pods that need alignment on a machine, even if nothing
// is held. The result is empty if it can. The reasons are permanent: only another configuration or machine removes
// them.
func (r Rules) Obstacles(m *topo.Machine) []Reason {
	all, guaranteed := barriers(m, r)
	out := append(all, guaranteed...)
	if r.Topology.Policy == None || !r.Topology.PreferClosest {
		return out
	}
	for _, n := range m.NUMAs() {
		if len(n.Distances) == 0 {
			return append(out, Reason{Code: NoDistances, Want: int64(n.ID)})
		}
	}
	if last := lastID(m); r.Topology.Policy != SingleNUMA && int(last) >= len(m.NUMAs()) {
		out = append(out, Reason{Code: NUMAID, Want: int64(last), Have: int64(len(m.NUMAs()) - 1),
			With: "prefer-closest-numa-nodes"})
	}
	return out
}

// MissingPages returns one reason for each size of hugepages that only some NUMA nodes of a machine show. The
// kubelet's static memory manager panics on pods that ask for such a size; under other rules the result is empty.
// Linux shows every size on every NUMA node with memory. Older kernels show no size on a NUMA node without memory.
// The kubelet serves all other pods.
func (r Rules) MissingPages(m *topo.Machine) (out []Reason) {
	for _, kind := range m.Kinds() {
		for _, n := range m.NUMAs() {
			if r.Memory.Static && r.Arbiter == ByKubelet && !n.Shows(kind) {
				out = append(out, Reason{Code: NoPages, Resource: kind, Want: int64(n.ID)})
				break
			}
		}
	}
	return out
}

// barriers returns why a kubelet serves no pod at all, and why it serves no pod with resources of its own
// ([Rules.Serves]).
func barriers(m *topo.Machine, r Rules) (all, guaranteed []Reason) {
	n, last := len(m.NUMAs()), lastID(m)
	policy := r.Topology.Policy
	if limit := cmp.Or(r.Topology.MaxNUMAs, defaultMaxNUMAs); policy != None && n > limit {
		all = append(all, Reason{Code: Unsupported, Want: int64(n), Have: int64(limit)})
	}
	outside := Reason{Code: NUMAID, Want: int64(last), Have: maxNUMAID, With: "topology policy " + policy.String()}
	switch {
	case last > maxNUMAID && policy != None:
		all = append(all, outside)
	case last > maxNUMAID && r.Memory.Static:
		outside.With = "the static memory manager"
		guaranteed = append(guaranteed, outside)
	case n > maxMemorySets && policy == None && r.Memory.Static:
		guaranteed = append(guaranteed, Reason{Code: Endless, Resource: topo.Memory, Want: int64(n), Have: maxMemorySets})
	}
	return all, guaranteed
}

func lastID(m *topo.Machine) idset.NUMA { return m.NUMAs()[len(m.NUMAs())-1].ID }

// bars returns why no usage of this ground admits a pod; exclusive is [Rules.Serves] for the pod.
func (g *ground) bars(exclusive bool) []Reason {
	if len(g.barsAll) > 0 || !exclusive {
		return g.barsAll
	}
	return g.barsGuaranteed
}
