package place

import (
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
)

// This file serves nodes on which the agent pins containers ([ByAgent]). There the scheduler decides what a pod gets,
// and the decision holds in any order of arrival.

// Decided returns what a node gives to a pod for which the scheduler has decided already. If all of the decision is
// still free and is what the pod asks for, kept is true and v has the decision. Otherwise v is the verdict of
// [Place]. A decision has no devices, since the kubelet's device manager chooses them.
func Decided(u *Usage, p *Pod, decision []Holding) (v Verdict, kept bool) {
	if u.covers(p, decision) {
		return Verdict{Holdings: slices.Clone(decision)}, true
	}
	return Place(u, p), false
}

// covers reports whether a decision gives each container as much as the managers would give it, and takes only what is
// free.
func (u *Usage) covers(p *Pod, decision []Holding) bool {
	a := admission{u: u, pod: p}
	// given are the CPUs of earlier containers that keep them. An init container gives its own back, but it runs beside
	// the sidecars before it.
	var given idset.Set[idset.CPU]
	rest := decision
	for i := range p.Containers {
		c := &p.Containers[i]
		var h Holding
		if len(rest) > 0 && rest[0].Container == c.Name {
			h, rest = rest[0], rest[1:]
		}
		if h.Kind != c.Kind && !h.Empty() || len(h.Devices) > 0 {
			return false
		}
		if int64(h.CPUs.Len()) != a.wholeCPUs(c) || !h.CPUs.SubsetOf(u.free) || h.CPUs.AndLen(given) > 0 {
			return false
		}
		if !matchesRequest(a.pinnedMemory(c), h.Memory) {
			return false
		}
		if c.Kind != Init {
			given = given.Union(h.CPUs)
		}
	}
	return len(rest) == 0 && u.hasMemory(decision)
}

// matchesRequest reports whether the blocks have exactly the kinds of memory in want, and of each no more bytes. They
// may have fewer bytes, since later containers reuse the memory of finished init containers.
func matchesRequest(want []Amount, got []Block) bool {
	if len(want) != len(got) {
		return false
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(b Block) bool { return b.Kind == w.Kind })
		if i < 0 || got[i].NUMAs == 0 || got[i].Bytes < 0 || got[i].Bytes > w.Bytes {
			return false
		}
	}
	return true
}

// hasMemory reports whether all memory of the holdings is free at once, and the memory manager would use their NUMA
// nodes together.
func (u *Usage) hasMemory(hs []Holding) bool {
	u = u.clone()
	for _, h := range hs {
		for _, b := range h.Memory {
			alone := b.NUMAs.Len() == 1 && b.NUMAs&u.used&u.grouped != 0 // on a NUMA node that others use as a group
			if b.NUMAs&^u.Machine.All() != 0 || alone || u.keeps && u.violates(b.NUMAs) || u.freeOn(b.NUMAs, b.Kind) < b.Bytes {
				return false
			}
		}
		for _, b := range h.Memory {
			u.assign(b.Kind, b.NUMAs, b.Bytes)
		}
	}
	return true
}
