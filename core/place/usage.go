package place

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// Usage is a machine with its rules and everything that is held of it. It is made by [NewUsage] and
// then never changes: Hold returns a new one, so that any number of goroutines may place on it.
type Usage struct {
	Machine *topo.Machine
	Rules   Rules

	kinds []string // memory kinds of the machine, shared between copies
	// allocatable[numa*len(kinds)+kind] is what Guaranteed pods may have, in bytes; shared between copies.
	allocatable []int64

	// nobodys are all CPUs of the cores that have a reserved CPU. even: see the function of that name.
	nobodys cpuSet
	even    bool

	// free are the CPUs that can be given out: not reserved, not held.
	free idset.Set[idset.CPU]
	// freeMem is indexed like allocatable. Invariant: 0 <= freeMem[i] <= allocatable[i].
	freeMem []int64
	// assignments[numa] is the number of memory blocks on the numa, cells[numa] the group of numas of
	// the latest of them (memorymanager/state, NUMANodeState).
	assignments []int
	cells       []topo.Mask
	// taken[resource] are the held devices, in the machine's order of resources.
	taken []devices
}

// devices is a set of devices of one resource, by their index in topo.Resource.Devices.
type devices []uint64

func (d devices) has(i int) bool   { return i/64 < len(d) && d[i/64]>>(uint(i)%64)&1 != 0 }
func (d devices) without(i int)    { d[i/64] &^= 1 << (uint(i) % 64) }
func (d devices) with(i int)       { d[i/64] |= 1 << (uint(i) % 64) }
func newDevices(count int) devices { return make(devices, (count+63)/64) }

func (d devices) len() (n int) {
	for _, w := range d {
		n += bits.OnesCount64(w)
	}
	return n
}

// NewUsage returns the usage of a machine on which nothing is held. Reservations beyond what a numa
// has count as all of it.
func NewUsage(m *topo.Machine, r Rules) *Usage {
	u := &Usage{Machine: m, Rules: r, kinds: m.Kinds(), free: m.CPUs().Minus(r.CPU.Reserved)}
	u.nobodys, u.even = coresOf(m, r.CPU.Reserved), even(m)
	for i, n := range m.NUMAs() {
		for _, k := range u.kinds {
			u.allocatable = append(u.allocatable, max(0, n.Capacity(k)-r.reserved(n.ID, k)))
		}
		u.cells = append(u.cells, 1<<uint(i))
	}
	u.freeMem = slices.Clone(u.allocatable)
	u.assignments = make([]int, len(u.cells))
	for _, res := range m.Resources() {
		u.taken = append(u.taken, newDevices(len(res.Devices)))
	}
	return u
}

func (r Rules) reserved(numa idset.NUMA, kind string) (bytes int64) {
	for _, x := range r.Memory.Reserved {
		if x.NUMA == numa && x.Kind == kind {
			bytes += x.Bytes
		}
	}
	return bytes
}

// Hold returns the usage with more holdings, in the order in which the node made them. Holdings of
// what the machine does not have are passed over.
func (u *Usage) Hold(hs ...Holding) *Usage {
	out := u.clone()
	for _, h := range hs {
		out.free = out.free.Minus(h.CPUs)
		for _, b := range h.Memory {
			out.assign(b.Kind, b.NUMAs, b.Bytes)
		}
		for _, d := range h.Devices {
			out.take(d.Resource, d.IDs)
		}
	}
	return out
}

// MemoryGroup is what a memory manager says of a numa where that does not follow from the holdings.
type MemoryGroup struct {
	NUMAs topo.Mask // the numas of the latest block on this numa
	Free  []Amount  // what the numa itself has free; kinds that are not named follow from the holdings
}

// WithGroups returns the usage with the memory groups that the node's memory manager reports, by
// position of the numa. Holdings do not tell them: a block on several numas does not say how much of it
// is on which, when it ends the manager gives back what the lowest of its numas has, whoever's that was
// (memorymanager/policy_static.go, releaseMemory), and after a container was put on a part of a group,
// the group that counts is the latest. A numa without blocks is in no group, whatever is reported.
// Amounts beyond what the numa has count as all of it.
func (u *Usage) WithGroups(groups map[int]MemoryGroup) *Usage {
	out := u.clone()
	for i, g := range groups {
		if i < 0 || i >= len(out.cells) {
			continue
		}
		if out.assignments[i] > 0 {
			out.cells[i] = g.NUMAs
		}
		for _, f := range g.Free {
			if k := out.kind(f.Kind); k >= 0 {
				at := i*len(out.kinds) + k
				out.freeMem[at] = max(0, min(f.Bytes, out.allocatable[at]))
			}
		}
	}
	return out
}

// MemoryGroup returns what WithGroups would have to be told of the numa at position i to change nothing.
func (u *Usage) MemoryGroup(i int) MemoryGroup {
	out := MemoryGroup{NUMAs: u.cells[i]}
	for k, kind := range u.kinds {
		out.Free = append(out.Free, Amount{Kind: kind, Bytes: u.freeMem[i*len(u.kinds)+k]})
	}
	return out
}

func (u *Usage) clone() *Usage {
	out := *u
	out.freeMem = slices.Clone(u.freeMem)
	out.assignments = slices.Clone(u.assignments)
	out.cells = slices.Clone(u.cells)
	out.taken = slices.Clone(u.taken)
	for i := range out.taken {
		out.taken[i] = slices.Clone(u.taken[i])
	}
	return &out
}

func (u *Usage) take(resource string, ids []string) {
	at, r, ok := u.resource(resource)
	if !ok {
		return
	}
	for _, id := range ids {
		if i, ok := deviceIndex(r, id); ok {
			u.taken[at].with(i)
		}
	}
}

func (u *Usage) resource(name string) (int, topo.Resource, bool) {
	all := u.Machine.Resources()
	at, ok := slices.BinarySearchFunc(all, name, func(r topo.Resource, name string) int { return strings.Compare(r.Name, name) })
	if !ok {
		return 0, topo.Resource{}, false
	}
	return at, all[at], true
}

func deviceIndex(r topo.Resource, id string) (int, bool) {
	return slices.BinarySearchFunc(r.Devices, id, func(d topo.Device, id string) int { return strings.Compare(d.ID, id) })
}

// kind returns the place of a memory kind in u.kinds, or -1.
func (u *Usage) kind(name string) int { return slices.Index(u.kinds, name) }

// assign books bytes on the numas of a mask, lowest numa first, as far as each has them free
// (memorymanager/policy_static.go, updateMachineState).
func (u *Usage) assign(kind string, on topo.Mask, bytes int64) {
	k := u.kind(kind)
	for on := on & u.Machine.All(); on != 0; on &= on - 1 {
		i := on.First()
		u.assignments[i]++
		if k >= 0 {
			at := i*len(u.kinds) + k
			part := min(bytes, u.freeMem[at])
			u.freeMem[at] -= part
			bytes -= part
		}
	}
	for _, i := range (on & u.Machine.All()).Positions() {
		u.cells[i] = on
	}
}

// Kinds returns the memory kinds of the machine; the caller must not change it.
func (u *Usage) Kinds() []string { return u.kinds }

// FreeCPUs returns the CPUs that can be given to a container.
func (u *Usage) FreeCPUs() idset.Set[idset.CPU] { return u.free }

// FreeMemory returns the bytes of a kind that the numa at position i has free for Guaranteed pods.
func (u *Usage) FreeMemory(i int, kind string) int64 { return u.amount(u.freeMem, i, kind) }

// Allocatable returns the bytes of a kind that the numa at position i has for Guaranteed pods.
func (u *Usage) Allocatable(i int, kind string) int64 { return u.amount(u.allocatable, i, kind) }

func (u *Usage) amount(table []int64, numa int, kind string) int64 {
	k := u.kind(kind)
	if k < 0 {
		return 0
	}
	return table[numa*len(u.kinds)+k]
}

// FreeDevices returns the healthy devices of a resource that nobody holds, in ascending order of id.
func (u *Usage) FreeDevices(resource string) []topo.Device {
	at, r, ok := u.resource(resource)
	if !ok {
		return nil
	}
	var out []topo.Device
	for i, d := range r.Devices {
		if !d.Unhealthy && !u.taken[at].has(i) {
			out = append(out, d)
		}
	}
	return out
}

// FreeDevicesOn counts the healthy devices that nobody holds and that are on some numa of a mask, of the
// resource at position at in Machine.Resources.
func (u *Usage) FreeDevicesOn(at int, mask topo.Mask) (count int64) {
	devices := u.Machine.Resources()[at].Devices
	for i := range devices {
		if devices[i].NUMAs&mask != 0 && !devices[i].Unhealthy && !u.taken[at].has(i) {
			count++
		}
	}
	return count
}
