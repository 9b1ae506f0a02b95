package place

import "github.com/tenon-numa/tenon/core/topo"

// Amounts returns how much of a resource each NUMA node has free, and how much it has if nothing is held, by
// position. The unit is one CPU for "cpu", one byte for a kind of memory, and one device for any other resource.
// whole contains reserved CPUs and unhealthy devices, but not reserved memory. A device that is on several NUMA nodes
// counts on each of them. total is what is free on the whole node, and counts every device once. The slices are nil
// if the machine has no such resource. The caller must not change them.
func (u *Usage) Amounts(resource string) (free, whole []int64, total int64) {
	if resource == "cpu" {
		return u.amounts[:u.numas], u.whole[:u.numas], u.cpus
	}
	if k := u.kind(resource); k >= 0 {
		from := u.memory(k)
		free, whole = u.amounts[from:from+u.numas], u.whole[from:from+u.numas]
		for _, n := range free {
			total += n
		}
		return free, whole, total
	}
	if at, _, ok := u.resource(resource); ok {
		from := u.devices(at)
		return u.amounts[from : from+u.numas], u.whole[from : from+u.numas], u.amounts[u.usable(at)]
	}
	return nil, nil, 0
}

// MemoryGroups returns the NUMA nodes that have memory blocks (used), and among them those that are in a group of
// several (grouped). Used NUMA nodes join no other group, and grouped ones take no block on a single NUMA node.
func (u *Usage) MemoryGroups() (used, grouped topo.Mask) { return u.used, u.grouped }

// FreeDevice reports whether a device is healthy and not held. at is the position of its resource in
// Machine.Resources, and i is the position of the device in Resource.Devices.
func (u *Usage) FreeDevice(at, i int) bool {
	return !u.Machine.Resources()[at].Devices[i].Unhealthy && !u.taken[at].has(i)
}
