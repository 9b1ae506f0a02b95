package kubelet

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Groups compares the memory manager's data with the data that follows from entries, which come from the same
// observation. It returns the manager's data of the NUMA nodes whose group or free amounts differ, by the positions of
// the NUMA nodes in m. It returns nil if there is no state file, or if the memory manager is not static.
//
// The manager's state may still have memory of ended pods, and already have memory of a pod without an entry. Groups
// computes the data as if the manager had returned all of this memory.
func (o Observation) Groups(m *topo.Machine, r place.Rules, entries []state.Entry,
	pods Pods) map[int]place.MemoryGroup {
	if o.Memory == nil || !r.Memory.Static {
		return nil
	}
	u := place.NewUsage(m, r)
	for _, e := range entries {
		u = u.Hold(e.Holdings...)
	}
	tables := o.Memory.tables(stateUIDs(entries, pods))
	out := map[int]place.MemoryGroup{}
	for at, n := range m.NUMAs() {
		t := tables[n.ID]
		if t == nil {
			continue
		}
		mask, err := m.MaskOf(t.cells.List()...)
		reported := place.MemoryGroup{NUMAs: mask, Free: t.amounts(m.Kinds())}
		if err == nil && mask.Has(at) && differ(reported, u.MemoryGroup(at)) {
			out[at] = reported
		}
	}
	return out
}

// stateUIDs returns the UIDs under which the kubelet keeps the pods of entries.
func stateUIDs(entries []state.Entry, pods Pods) map[string]bool {
	out := map[string]bool{}
	for _, e := range entries {
		if pod, ok := pods.Pod(e.Pod.Namespace, e.Pod.Name); ok {
			out[pod.StateUID] = true
		}
	}
	return out
}

// differ reports whether the manager's data has another group, or another free amount, than the data that follows from
// holdings. It compares only kinds of memory that both have.
func differ(reported, derived place.MemoryGroup) bool {
	if reported.NUMAs != derived.NUMAs {
		return true
	}
	for _, f := range reported.Free {
		at := slices.IndexFunc(derived.Free, func(x place.Amount) bool { return x.Kind == f.Kind })
		if at >= 0 && derived.Free[at].Bytes != f.Bytes {
			return true
		}
	}
	return false
}

// table is the memory manager's data of one NUMA node.
type table struct {
	cells          idset.Set[idset.NUMA] // the group of the NUMA node
	assignments    int                   // memory blocks that include the NUMA node
	free, reserved map[string]uint64     // unassigned and assigned bytes by kind
}

// tables returns the tables that the manager would have after it returned the memory of all pods that are not in
// keep. The memory is returned in the order of UIDs and containers. The manager's own order is the random order of a
// Go map; see ReleaseOrder.
func (s *MemoryState) tables(keep map[string]bool) map[idset.NUMA]*table {
	out := map[idset.NUMA]*table{}
	for id, cells := range s.Cells {
		out[id] = &table{cells: cells, free: maps.Clone(s.Free[id]), reserved: maps.Clone(s.Used[id])}
	}
	var ended []MemoryBlock
	for _, uid := range s.uids() {
		blocks := s.blocks(uid)
		for _, b := range blocks {
			for id := range b.NUMAs.All() {
				if t := out[id]; t != nil {
					t.assignments++
				}
			}
		}
		if !keep[uid] {
			ended = append(ended, blocks...)
		}
	}
	for _, b := range ended {
		release(out, b)
	}
	for id, t := range out {
		if t.assignments == 0 {
			t.cells = idset.Of(id)
		}
	}
	return out
}

// uids returns the UIDs of all pods in the file, in ascending order.
func (s *MemoryState) uids() []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for uid := range s.Containers {
			if !yield(uid) {
				return
			}
		}
		for uid := range s.Pods {
			if !yield(uid) {
				return
			}
		}
	}))
}

// blocks returns the blocks of a pod. The blocks of a pod as a whole include its containers' blocks.
func (s *MemoryState) blocks(uid string) (out []MemoryBlock) {
	if whole, ok := s.Pods[uid]; ok {
		return whole
	}
	for _, name := range slices.Sorted(maps.Keys(s.Containers[uid])) {
		out = append(out, s.Containers[uid][name]...)
	}
	return out
}

// release returns a block to the tables, as the manager does. From each NUMA node of the block in turn it takes as
// many of the block's bytes as are assigned there, whichever container they are assigned to
// (memorymanager/policy_static.go, releaseMemory).
func release(tables map[idset.NUMA]*table, b MemoryBlock) {
	rest := uint64(b.Bytes)
	for id := range b.NUMAs.All() {
		t := tables[id]
		if t == nil {
			continue
		}
		t.assignments--
		part := min(rest, t.reserved[b.Kind])
		if part > 0 {
			t.reserved[b.Kind] -= part
			t.free[b.Kind] += part
			rest -= part
		}
	}
}

// amounts returns the free amounts of the kinds, in the order of kinds. It omits amounts that no machine has, such as
// a number that has wrapped below 0.
func (t *table) amounts(kinds []string) (out []place.Amount) {
	for _, kind := range kinds {
		if n, ok := t.free[kind]; ok && n <= topo.MaxBytes {
			out = append(out, place.Amount{Kind: kind, Bytes: int64(n)})
		}
	}
	return out
}
