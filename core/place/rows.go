package place

import "github.com/tenon-numa/tenon/core/topo"

// CPU is the name of the row of CPUs.
const CPU = "cpu"

// Row is one thing that a machine has, by position of the numa: CPUs, bytes of a kind of memory, or devices
// of a resource. The caller must not change it.
type Row struct {
	Free []int64
	// Whole is what each numa has where nothing is held: reserved CPUs and unhealthy devices count, reserved
	// memory does not.
	Whole []int64
	// All is what is free on the whole node: devices that are on several numas once, those on none, too.
	All int64
}

// Row returns a row by name: [CPU], a kind of memory, or a resource. It is empty where the machine has
// nothing of that name.
func (u *Usage) Row(name string) Row {
	if name == CPU {
		return Row{Free: u.amounts[:u.numas], Whole: u.whole[:u.numas], All: u.cpus}
	}
	if k := u.kind(name); k >= 0 {
		from := u.memory(k)
		r := Row{Free: u.amounts[from : from+u.numas], Whole: u.whole[from : from+u.numas]}
		for _, n := range r.Free {
			r.All += n
		}
		return r
	}
	if at, _, ok := u.resource(name); ok {
		from := u.devices(at)
		return Row{Free: u.amounts[from : from+u.numas], Whole: u.whole[from : from+u.numas], All: u.amounts[u.usable(at)]}
	}
	return Row{}
}

// MemoryGroups returns the numas that have memory blocks, and those of them that share them with others:
// the first take no block that reaches further, the second none on a single numa.
func (u *Usage) MemoryGroups() (used, grouped topo.Mask) { return u.used, u.grouped }

// FreeDevice reports whether the i-th device of the resource at position at in Machine.Resources is healthy,
// and nobody holds it.
func (u *Usage) FreeDevice(at, i int) bool {
	return !u.Machine.Resources()[at].Devices[i].Unhealthy && !u.taken[at].has(i)
}
