package score

import (
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// maxRoots bounds the number of PCI roots that are distinguished.
const maxRoots = 16

// roots are the PCI roots above the devices of a pod.
type roots struct {
	names [maxRoots]string
	count int
}

// add adds a PCI root, unless its name is unknown. Roots beyond maxRoots do not count.
func (r *roots) add(name string) {
	if name == "" || r.count == maxRoots {
		return
	}
	for _, known := range r.names[:r.count] {
		if known == name {
			return
		}
	}
	r.names[r.count] = name
	r.count++
}

// extraRoots counts the PCI roots above the pod's devices, less one: between two roots, data passes through CPUs. It
// ignores devices with unknown root. If the kubelet may take any of several devices, all of them count.
func extraRoots(u *place.Usage, hs []place.Holding) int64 {
	var r roots
	for i := range hs {
		for j := range hs[i].Devices {
			b := &hs[i].Devices[j]
			at, res := resource(u.Machine, b.Resource)
			if !res.Rooted {
				continue
			}
			for k := range res.Devices {
				if d := &res.Devices[k]; b.Free && d.NUMAs&b.NUMAs != 0 && u.FreeDevice(at, k) {
					r.add(d.Root)
				}
			}
			for k := range b.IDs {
				r.add(res.Device(b.IDs[k]).Root)
			}
		}
	}
	return int64(max(0, r.count-1))
}

// resource returns a resource of the machine and its index; both are zero if the machine does not have it.
func resource(m *topo.Machine, name string) (int, topo.Resource) {
	all := m.Resources()
	for i := range all {
		if all[i].Name == name {
			return i, all[i]
		}
	}
	return 0, topo.Resource{}
}

// extraCaches counts the L3 groups that a container has CPUs in, beyond the number that it would need if it had each
// group to itself. So machines with small caches are no worse for pods that do not fit in one cache.
func extraCaches(m *topo.Machine, h *place.Holding) int64 {
	if h.CPUs.Empty() {
		return 0
	}
	var seen [(idset.Max + 1) / 64]uint64 // by the lowest CPU of the group
	count, size := 0, 1
	for id := range h.CPUs.All() {
		if _, ok := m.CPU(id); !ok {
			continue
		}
		group := m.GroupOf(topo.L3s, id)
		if word, bit := &seen[group.ID/64], uint64(1)<<(group.ID%64); *word&bit == 0 {
			*word |= bit
			count, size = count+1, max(size, group.CPUs.Len())
		}
	}
	return int64(max(0, count-(h.CPUs.Len()+size-1)/size))
}
