package affinity

import (
	"iter"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Join returns how many pods of further's group would share a NUMA node with further if that pod came to the machine
// and Decide placed it. It returns 0 if no NUMA node has room for further beside such pods. The errors are those that
// Decide returns.
func Join(in Input, rules Rules, further Pod) (int, error) {
	further.NUMA = Nowhere
	in.Pods = append(in.Pods[:len(in.Pods):len(in.Pods)], further)
	rules.Periods = 1
	r, err := Decide(in, rules, nil)
	if err != nil {
		return 0, err
	}
	at := map[string]idset.NUMA{}
	for _, v := range r.Verdicts {
		at[v.Pod] = v.NUMA
	}
	with := 0
	for _, p := range in.Pods {
		if p.ID != further.ID && p.Group == further.Group && at[p.ID] == at[further.ID] && at[p.ID] != Nowhere {
			with++
		}
	}
	return with, nil
}

// Held reports whether holdings include exclusive CPUs or memory. It returns their NUMA node, or Nowhere if they are
// on several NUMA nodes or there are none.
func Held(m *topo.Machine, holdings []place.Holding) (at idset.NUMA, exclusive bool) {
	var mask topo.Mask
	for _, h := range holdings {
		mask |= m.MaskOfCPUs(h.CPUs)
		for _, b := range h.Memory {
			mask |= b.NUMAs
		}
	}
	if ids := m.IDs(mask); len(ids) == 1 {
		return ids[0], true
	}
	return Nowhere, mask != 0
}

// Room returns, for every NUMA node of a machine, what it has for pods that share CPUs: the CPUs of shared that are
// not reserved for the system, and its memory without hugepages and without the memory in held.
func Room(m *topo.Machine, rules place.Rules, shared idset.Set[idset.CPU], held iter.Seq[place.Holding]) []NUMA {
	cpus := shared.Minus(rules.CPU.Reserved)
	exclusive := make([]int64, len(m.NUMAs()))
	for h := range held {
		for _, b := range h.Memory {
			if b.Kind != topo.Memory {
				continue
			}
			at := b.NUMAs.Positions()
			for _, i := range at {
				exclusive[i] += b.Bytes / int64(len(at))
			}
		}
	}
	out := make([]NUMA, 0, len(exclusive))
	for i, numa := range m.NUMAs() {
		bytes := numa.Bytes - exclusive[i]
		for _, h := range numa.Hugepages {
			bytes -= h.PageSize * h.Count
		}
		out = append(out, NUMA{ID: numa.ID, MilliCPU: int64(numa.CPUs.AndLen(cpus)) * 1000,
			Bytes: max(0, min(bytes, MaxAmount))})
	}
	return out
}
