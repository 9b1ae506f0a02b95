package place

import (
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// Usage is a machine with its rules and everything that is held of it. It is made by [NewUsage] and
// then never changes: Hold returns a new one, so that any number of goroutines may place on it.
type Usage struct {
	Machine *topo.Machine
	Rules   Rules
	// free are the CPUs that can be given out: not reserved, not held.
	free idset.Set[idset.CPU]
	// mem[i] is the memory of the numa at position i, as the memory manager's machine state has it.
	mem []numaMemory
	// taken[resource] are the ids of held devices.
	taken map[string]map[string]bool
}

// numaMemory is the state of one numa in the memory manager (memorymanager/state, NUMANodeState).
type numaMemory struct {
	assignments int       // blocks that use the numa
	cells       topo.Mask // the group of numas that the last block on this numa used
	kinds       []kindMemory
}

// kindMemory is memory of one kind on one numa, in bytes.
type kindMemory struct {
	kind              string
	allocatable, free int64
}

// NewUsage returns the usage of a machine on which nothing is held.
func NewUsage(m *topo.Machine, r Rules) *Usage {
	u := &Usage{Machine: m, Rules: r, free: m.CPUs().Minus(r.CPU.Reserved), taken: map[string]map[string]bool{}}
	kinds := m.Kinds()
	for i, n := range m.NUMAs() {
		nm := numaMemory{cells: 1 << uint(i)}
		for _, k := range kinds {
			bytes := n.Capacity(k) - r.reserved(n.ID, k)
			nm.kinds = append(nm.kinds, kindMemory{kind: k, allocatable: bytes, free: bytes})
		}
		u.mem = append(u.mem, nm)
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

// Hold returns the usage with more holdings, in the order in which the node made them.
func (u *Usage) Hold(hs ...Holding) *Usage {
	out := u.clone()
	for _, h := range hs {
		out.hold(h)
	}
	return out
}

func (u *Usage) clone() *Usage {
	out := *u
	out.mem = slices.Clone(u.mem)
	for i := range out.mem {
		out.mem[i].kinds = slices.Clone(u.mem[i].kinds)
	}
	out.taken = make(map[string]map[string]bool, len(u.taken))
	for r, ids := range u.taken {
		c := make(map[string]bool, len(ids))
		for id := range ids {
			c[id] = true
		}
		out.taken[r] = c
	}
	return &out
}

func (u *Usage) hold(h Holding) {
	u.free = u.free.Minus(h.CPUs)
	for _, b := range h.Memory {
		u.assign(b.Kind, b.NUMAs, b.Bytes)
	}
	for _, d := range h.Devices {
		u.take(d.Resource, d.IDs)
	}
}

func (u *Usage) take(resource string, ids []string) {
	if u.taken[resource] == nil {
		u.taken[resource] = map[string]bool{}
	}
	for _, id := range ids {
		u.taken[resource][id] = true
	}
}

// assign books bytes on the numas of a mask, lowest numa first, as far as each has them free
// (memorymanager/policy_static.go, updateMachineState).
func (u *Usage) assign(kind string, on topo.Mask, bytes int64) {
	for _, i := range on.Positions() {
		if i >= len(u.mem) {
			return
		}
		nm := &u.mem[i]
		nm.assignments++
		nm.cells = on
		for k := range nm.kinds {
			if nm.kinds[k].kind == kind {
				part := min(bytes, max(0, nm.kinds[k].free))
				nm.kinds[k].free -= part
				bytes -= part
			}
		}
	}
}

// FreeCPUs returns the CPUs that can be given to a container.
func (u *Usage) FreeCPUs() idset.Set[idset.CPU] { return u.free }

// FreeMemory returns the bytes of a kind that the numa at position i has free for Guaranteed pods.
func (u *Usage) FreeMemory(i int, kind string) int64 { return u.mem[i].kind(kind).free }

// FreeDevices returns the ids of the healthy devices of a resource that nobody holds, ascending.
func (u *Usage) FreeDevices(resource string) []string {
	var out []string
	r, _ := u.Machine.Resource(resource)
	for _, d := range r.Devices {
		if !d.Unhealthy && !u.taken[resource][d.ID] {
			out = append(out, d.ID)
		}
	}
	return out
}

func (nm numaMemory) kind(kind string) kindMemory {
	for _, k := range nm.kinds {
		if k.kind == kind {
			return k
		}
	}
	return kindMemory{kind: kind}
}
