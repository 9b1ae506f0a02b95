package place

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// Usage is a machine with its rules and all holdings on it. [NewUsage] makes it, and it never changes: Hold returns a
// new one, so any number of goroutines may use it.
type Usage struct {
	counts
	Machine *topo.Machine
	Rules   Rules
	// free are the CPUs that containers can get: not reserved, not held.
	free idset.Set[idset.CPU]
	// taken[resource] are the held devices, in the machine's order of resources.
	taken []devices
	risk  risk
}

// counts is what plans read of a usage: amounts without ids. It is small, because a plan for several containers
// subtracts from a copy.
type counts struct {
	*ground // shared between copies
	// amounts are the free amounts in rows (see ground), followed by two counts of devices for each resource (see near
	// and usable). Invariant: no amount is negative, and amounts[i] <= whole[i] in the rows.
	amounts []int64
	// cpus is the number of free CPUs, and halves the number of these on cores that have a reserved CPU.
	cpus, halves int64
	// used are the NUMA nodes that have memory blocks. grouped are the used NUMA nodes whose group has several NUMA
	// nodes.
	used, grouped topo.Mask
	// cells[numa] is the memory manager's state of a NUMA node.
	cells []cell
}

// cell is the memory manager's state of a NUMA node: the number of memory blocks on it, and the group of NUMA nodes of
// the latest block (memorymanager/state, NUMANodeState).
type cell struct {
	blocks int
	group  topo.Mask
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

// NewUsage returns the usage of a machine on which nothing is held. The rules must be valid for the machine (see
// [Rules.Validate]). If a reservation of memory exceeds what a NUMA node has, nothing is left for pods. Under a
// static memory manager a very large amount is left instead, as in the kubelet, whose unsigned number wraps.
func NewUsage(m *topo.Machine, r Rules) *Usage {
	u := &Usage{Machine: m, Rules: r, counts: counts{ground: newGround(m, r)}}
	return u.Empty()
}

// Alike reports whether one of the two usages is made from the other, or both are made from a third. They then have
// the same machine and rules.
func (u *Usage) Alike(v *Usage) bool { return u.ground == v.ground }

// Empty returns the usage of the same machine and rules on which nothing is held. It is cheaper than NewUsage, since it
// shares what does not change.
func (u *Usage) Empty() *Usage {
	g := u.ground
	out := &Usage{Machine: u.Machine, Rules: u.Rules, counts: counts{ground: g, cells: make([]cell, g.numas)}}
	out.amounts = make([]int64, len(g.whole)+2*len(g.sets))
	copy(out.amounts[g.numas:], g.whole[g.numas:g.devices(0)]) // memory; CPUs and devices are counted below
	for at, res := range u.Machine.Resources() {
		out.taken = append(out.taken, newDevices(len(res.Devices)))
		for i := range res.Devices {
			if !res.Devices[i].Unhealthy {
				out.count(at, res.Devices[i].NUMAs, 1)
			}
		}
	}
	for i := range out.cells {
		out.cells[i].group = 1 << uint(i)
	}
	out.setFree(u.Machine.CPUs().Minus(u.Rules.CPU.Reserved))
	return out
}

// setFree sets the free CPUs, and the amounts that follow from them.
func (u *Usage) setFree(free idset.Set[idset.CPU]) {
	u.free, u.cpus, u.halves = free, 0, int64(free.AndLen(u.reservedCores))
	for i := range u.cells {
		n := int64(u.Machine.NUMAs()[i].CPUs.AndLen(free))
		u.amounts[i] = n
		u.cpus += n
	}
}

// count adds n usable devices that are on the NUMA nodes of a mask; n may be negative.
func (u *Usage) count(resource int, on topo.Mask, n int64) {
	add(u.amounts[u.devices(resource):], on, n)
	u.amounts[u.usable(resource)] += n
	if on != 0 {
		u.amounts[u.near(resource)] += n
	}
}

// reserved returns how many bytes of a kind of memory one NUMA node keeps for the system.
func (r Rules) reserved(numa idset.NUMA, kind string) (bytes int64) {
	for _, x := range r.Memory.Reserved {
		if x.NUMA == numa && x.Kind == kind {
			bytes += x.Bytes
		}
	}
	return bytes
}

// Hold returns the usage with more holdings, in the order in which the node made them. It ignores holdings of things
// that the machine lacks.
func (u *Usage) Hold(hs ...Holding) *Usage {
	out := u.clone()
	free := u.free.Bits()
	for _, h := range hs {
		free.Drop(h.CPUs)
		out.risk.hold(out, &h)
		for _, b := range h.Memory {
			out.assign(b.Kind, b.NUMAs, b.Bytes)
		}
		for _, d := range h.Devices {
			out.take(d.Resource, d.IDs)
		}
	}
	out.setFree(free.Set())
	return out
}

// On returns the usage in which all CPUs and memory outside the NUMA nodes of a mask are held, so that [Place] gives
// only what is on them. Devices stay as they are.
func (u *Usage) On(mask topo.Mask) *Usage {
	var h Holding
	for i, numa := range u.Machine.NUMAs() {
		if mask.Has(i) {
			continue
		}
		h.CPUs = h.CPUs.Union(u.free.And(numa.CPUs))
		for _, kind := range u.kinds {
			if free := u.FreeMemory(i, kind); free > 0 {
				h.Memory = append(h.Memory, Block{Kind: kind, NUMAs: 1 << uint(i), Bytes: free})
			}
		}
	}
	return u.Hold(h)
}

// Key returns a text. Two usages of the same machine and rules that have the same text give every pod the same.
func (u *Usage) Key() string {
	b := []byte(u.free.String())
	for _, n := range u.amounts {
		b = strconv.AppendInt(append(b, ','), n, 36)
	}
	for _, c := range u.cells {
		b = strconv.AppendUint(strconv.AppendInt(append(b, ';'), int64(c.blocks), 36), uint64(c.group), 36)
	}
	for _, t := range u.taken {
		for _, word := range t {
			b = strconv.AppendUint(append(b, '.'), word, 36)
		}
	}
	return string(b)
}

// MemoryGroup is a memory manager's own record of a NUMA node, for cases in which it does not follow from the holdings.
type MemoryGroup struct {
	NUMAs topo.Mask // the NUMA nodes of the latest block on this NUMA node
	Free  []Amount  // free amounts of the NUMA node alone; other kinds follow from the holdings
}

// WithGroups returns the usage with the memory groups that the node's memory manager reports, by position of the NUMA
// node. The groups do not follow from holdings, for three reasons. A block on several NUMA nodes does not say how
// much of it is on each. When such a block ends, the manager frees bytes on the lowest of its NUMA nodes first, even
// if another block used them (memorymanager/policy_static.go, releaseMemory). After a container was put on a part of
// a group, the latest group counts. A NUMA node without blocks is in no group, even if the report has a group for it.
// Amounts beyond what the NUMA node has count as all of it.
func (u *Usage) WithGroups(groups map[int]MemoryGroup) *Usage {
	if len(groups) == 0 {
		return u
	}
	out := u.clone()
	for i, g := range groups {
		if i < 0 || i >= len(out.cells) {
			continue
		}
		if out.cells[i].blocks > 0 {
			out.group(i, g.NUMAs)
		}
		for _, f := range g.Free {
			if k := out.kind(f.Kind); k >= 0 {
				at := out.memory(k) + i
				out.amounts[at] = max(0, min(f.Bytes, out.whole[at]))
			}
		}
	}
	out.risk.tables = out.risk.tables || tablesDiffer(u, out)
	return out
}

// MemoryGroup returns the memory group of the NUMA node at position i. WithGroups with that value changes nothing.
func (u *Usage) MemoryGroup(i int) MemoryGroup {
	out := MemoryGroup{NUMAs: u.cells[i].group}
	for k, kind := range u.kinds {
		out.Free = append(out.Free, Amount{Kind: kind, Bytes: u.amounts[u.memory(k)+i]})
	}
	return out
}

func (u *Usage) clone() *Usage {
	out := *u
	out.amounts = slices.Clone(u.amounts)
	out.cells = slices.Clone(u.cells)
	out.taken = slices.Clone(u.taken)
	for i := range out.taken {
		out.taken[i] = slices.Clone(u.taken[i])
	}
	return &out
}

// group sets the memory group of the NUMA node at position i.
func (u *Usage) group(i int, mask topo.Mask) {
	u.cells[i].group = mask
	if u.grouped &^= 1 << uint(i); mask.Len() > 1 {
		u.grouped |= 1 << uint(i)
	}
}

// take marks devices as held. It ignores devices that the machine lacks.
func (u *Usage) take(resource string, ids []string) {
	at, r, ok := u.resource(resource)
	if !ok {
		return
	}
	taken := u.taken[at]
	for _, id := range ids {
		if i, ok := deviceIndex(r, id); ok && !taken.has(i) {
			taken.with(i)
			if !r.Devices[i].Unhealthy {
				u.count(at, r.Devices[i].NUMAs, -1)
			}
		}
	}
}

// resource returns a device resource and its position in Machine.Resources; the last result is false if there is
// none.
func (u *Usage) resource(name string) (int, topo.Resource, bool) {
	at := u.resourceAt(name)
	if at < 0 {
		return 0, topo.Resource{}, false
	}
	return at, u.Machine.Resources()[at], true
}

// resourceAt returns the position of a resource in Machine.Resources, or -1.
func (u *Usage) resourceAt(name string) int {
	for at := range u.sets { // there are few resources
		if u.sets[at].name == name {
			return at
		}
	}
	return -1
}

func deviceIndex(r topo.Resource, id string) (int, bool) {
	return slices.BinarySearchFunc(r.Devices, id, func(d topo.Device, id string) int { return strings.Compare(d.ID, id) })
}

// assign subtracts the bytes of a block from the NUMA nodes of its mask, lowest NUMA node first, as far as each has
// them free (memorymanager/policy_static.go, updateMachineState).
func (u *Usage) assign(kind string, on topo.Mask, bytes int64) {
	k := u.kind(kind)
	for rest := on & u.Machine.All(); rest != 0; rest &= rest - 1 {
		i := rest.First()
		u.risk.overlap = u.risk.overlap || u.cells[i].blocks > 0 && u.cells[i].group != on
		u.cells[i].blocks++
		u.used |= 1 << uint(i)
		u.group(i, on)
		if k >= 0 {
			at := u.memory(k) + i
			part := min(bytes, u.amounts[at])
			u.amounts[at] -= part
			bytes -= part
		}
	}
}

// Kinds returns the memory kinds of the machine; the caller must not change it.
func (u *Usage) Kinds() []string { return u.kinds }

// FreeCPUs returns the CPUs that a container can get.
func (u *Usage) FreeCPUs() idset.Set[idset.CPU] { return u.free }

// FreeMemory returns the bytes of a kind that the NUMA node at position i has free for Guaranteed pods.
func (u *Usage) FreeMemory(i int, kind string) int64 { return u.amount(u.amounts, i, kind) }

// Allocatable returns the bytes of a kind that the NUMA node at position i has for Guaranteed pods.
func (u *Usage) Allocatable(i int, kind string) int64 { return u.amount(u.whole, i, kind) }

func (u *Usage) amount(table []int64, numa int, kind string) int64 {
	k := u.kind(kind)
	if k < 0 {
		return 0
	}
	return table[u.memory(k)+numa]
}

// FreeDevices returns the healthy devices of a resource that are not held, in ascending order of id.
func (u *Usage) FreeDevices(resource string) []topo.Device {
	at, r, ok := u.resource(resource)
	if !ok {
		return nil
	}
	var out []topo.Device
	taken := u.taken[at]
	for i, d := range r.Devices {
		if !d.Unhealthy && !taken.has(i) {
			out = append(out, d)
		}
	}
	return out
}

// FreeDevicesOn counts the devices of a resource that are healthy, not held, and on some NUMA node of a mask. at is
// the position of the resource in Machine.Resources.
func (u *Usage) FreeDevicesOn(at int, mask topo.Mask) (count int64) {
	if mask.Len() == 1 {
		return u.amounts[u.devices(at)+mask.First()]
	}
	devices, taken := u.Machine.Resources()[at].Devices, u.taken[at]
	for i := range devices {
		if devices[i].NUMAs&mask != 0 && !devices[i].Unhealthy && !taken.has(i) {
			count++
		}
	}
	return count
}
