package place

import (
	"math/bits"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// ground is the part of a usage that does not depend on holdings. It is computed once and shared by all usages that
// are made from one another. What a [Question] computes from a ground (see plan.go) is therefore valid for all these
// usages.
//
// Amounts of a ground and of its usages are rows with one number for each NUMA node, by position: row 0 is CPUs, then
// every kind of memory, then the devices of every resource that touch the NUMA node.
type ground struct {
	numas int
	all   topo.Mask
	kinds []string // memory kinds of the machine
	// whole has the amounts if nothing is held: all CPUs, reserved ones too; the memory in bytes that Guaranteed pods
	// may have; all devices, unhealthy ones too.
	whole    []int64
	withCPUs topo.Mask
	// sets[resource] describes its devices, in the machine's order of resources.
	sets []deviceSet
	// reservedCores are all CPUs of the cores that have a reserved CPU. even: picking CPUs is exact, because parts of
	// the machine have equal sizes (see func even) or because the agent decides.
	reservedCores cpuSet
	even          bool
	perCore       int // CPUs of a core, the mean
	// tidy: the machine is even, and sockets lie inside NUMA nodes or NUMA nodes inside sockets. The kubelet then picks
	// exactly as many CPUs as are wanted.
	tidy bool
	// oneCache are the NUMA nodes whose CPUs are in one last-level cache group.
	oneCache topo.Mask
	// localVaries: NUMA nodes differ in the distance to themselves, so the lowest of several may not be the closest.
	localVaries bool
	// missing has, for each kind of memory, the NUMA nodes on which the memory manager has no table for it; see crashes.
	missing []topo.Mask
	// keeps: the memory manager never assigns memory if that would mix single use and group use of a NUMA node.
	keeps bool
	// barsAll and barsGuaranteed say why the node's kubelet serves no pod, or no Guaranteed pod; see Obstacles.
	barsAll, barsGuaranteed []Reason
	costs                   costs
}

// deviceSet has what does not change about the devices of one resource.
type deviceSet struct {
	name    string
	numas   topo.Mask // that hints range over; none where no device plugin names a NUMA node
	healthy int
	shared  int // devices that touch several NUMA nodes
	// listed: the kubelet decides, so topo.NUMAList matters.
	listed bool
}

// wrapped stands for the kubelet's amount of memory if reservations or hugepages exceed what a NUMA node has: an
// unsigned number that wrapped below zero, some 16 EiB (memorymanager/policy_static.go, getDefaultMachineState). It is
// far above what pods can want, and the sum of 64 such amounts does not overflow.
const wrapped = 1 << 56

func newGround(m *topo.Machine, r Rules) *ground {
	g := &ground{numas: len(m.NUMAs()), all: m.All(), kinds: m.Kinds(), withCPUs: m.WithCPUs(), perCore: cpusPerCore(m)}
	g.reservedCores, g.even = coresOf(m, r.CPU.Reserved), r.Arbiter == ByAgent || even(m)
	g.tidy = even(m) && nested(m)
	g.barsAll, g.barsGuaranteed = barriers(m, r)
	g.keeps = r.Release.has(groupsAreKept)
	g.whole = make([]int64, g.rows(len(m.Resources()))*g.numas)
	g.missing = make([]topo.Mask, len(g.kinds))
	for i, n := range m.NUMAs() {
		g.whole[i] = int64(n.CPUs.Len())
		if g.withCPUs.Has(i) && n.CPUs.SubsetOf(m.GroupOf(topo.L3s, n.CPUs.Min()).CPUs) {
			g.oneCache |= 1 << uint(i)
		}
		for k, kind := range g.kinds {
			if r.Arbiter == ByKubelet && !n.Shows(kind) {
				g.missing[k] |= 1 << uint(i)
			}
			bytes := n.Balance(kind) - r.reserved(n.ID, kind)
			if bytes < 0 && r.Memory.Static {
				bytes = wrapped
			}
			g.whole[g.memory(k)+i] = max(0, bytes)
		}
		g.localVaries = g.localVaries || meanDistance(m, 1<<uint(i)) != meanDistance(m, 1)
	}
	for at, res := range m.Resources() {
		set := deviceSet{name: res.Name, numas: res.NUMAs, healthy: healthy(res)}
		set.listed = r.Arbiter == ByKubelet
		named := res.NUMAs != 0
		for _, d := range res.Devices {
			named = named || set.listed && d.List.Names()
			if bits.OnesCount64(uint64(d.NUMAs)) > 1 {
				set.shared++
			}
			add(g.whole[g.devices(at):], d.NUMAs, 1)
		}
		// Hints then range over all NUMA nodes: before 1.36, and if no device is on a NUMA node of the machine.
		if named && (res.NUMAs == 0 || !r.Release.has(hintsOfDeviceNUMAs)) {
			set.numas = g.all
		}
		g.sets = append(g.sets, set)
	}
	g.costs = newCosts(m, &r, g.sets)
	return g
}

// nested reports whether every NUMA node with CPUs lies inside one socket. If there are at least as many sockets as
// such NUMA nodes, it reports instead whether every socket lies inside one NUMA node.
func nested(m *topo.Machine) bool {
	inner, outer := topo.NUMAs, topo.Sockets
	if len(m.Sockets()) >= m.WithCPUs().Len() {
		inner, outer = outer, inner
	}
	for _, g := range m.Groups(inner) {
		if !g.CPUs.SubsetOf(m.GroupOf(outer, g.CPUs.Min()).CPUs) {
			return false
		}
	}
	return true
}

// add adds n to the entries of a row that belong to the NUMA nodes of a mask.
func add(row []int64, on topo.Mask, n int64) {
	for ; on != 0; on &= on - 1 {
		row[on.First()] += n
	}
}

// rows returns the number of rows for this number of device resources.
func (g *ground) rows(resources int) int { return 1 + len(g.kinds) + resources }

// memory and devices return where the row of a kind or resource begins. near and usable return where the number of its
// free devices is: near counts devices on some NUMA node, usable counts all. Both follow the rows.
func (g *ground) memory(kind int) int      { return (1 + kind) * g.numas }
func (g *ground) devices(resource int) int { return (1 + len(g.kinds) + resource) * g.numas }
func (g *ground) near(resource int) int    { return len(g.whole) + 2*resource }
func (g *ground) usable(resource int) int  { return len(g.whole) + 2*resource + 1 }

// setOf returns the devices whose usable ones are counted at an index of the amounts.
func (g *ground) setOf(usable int32) *deviceSet { return &g.sets[(int(usable)-len(g.whole))/2] }

// kind returns the index of a memory kind in kinds, or -1.
func (g *ground) kind(name string) int { return slices.Index(g.kinds, name) }
