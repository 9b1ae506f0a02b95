package kubelet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// maxOrdered bounds the blocks whose orders are all tried.
const maxOrdered = 6

// ReleaseOrder returns a reason if the memory manager still has to release memory of ended pods, and the order in
// which it does so decides how much memory each NUMA node then has free. found reports whether there is a reason.
// entries come from the same observation.
//
// The manager releases in the random order of a Go map (pkg/kubelet/cm/memorymanager/memory_manager.go,
// removeStaleState). To release a block on several NUMA nodes, it starts at the lowest of them, and releases there as
// much as is assigned to any container. Once it has released the memory, its file has the free amounts, and the
// reason disappears.
func (o Observation) ReleaseOrder(r place.Rules, entries []state.Entry, pods Pods) (why state.Inexact, found bool) {
	if o.Memory == nil || !r.Memory.Static {
		return why, false
	}
	keep := stateUIDs(entries, pods)
	ended, count := map[string][]MemoryBlock{}, 0
	for _, uid := range o.Memory.uids() {
		if keep[uid] {
			continue
		}
		count++
		for _, b := range o.Memory.blocks(uid) {
			if b.Bytes > 0 {
				ended[b.Kind] = append(ended[b.Kind], b)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(ended)) {
		if o.Memory.orderMatters(kind, ended[kind]) {
			return state.Inexact{Code: state.ReleaseOrder,
				Message: fmt.Sprintf("the kubelet still has to release %s of %d ended pods; "+
					"which NUMA nodes then have how much of it free depends on an order that it leaves to chance", kind, count)}, true
		}
	}
	return why, false
}

// orderMatters reports whether different orders of releasing blocks of one kind may leave different amounts free. The
// result is exact for up to maxOrdered connected blocks; for more it is true.
func (s *MemoryState) orderMatters(kind string, blocks []MemoryBlock) bool {
	wide := func(b MemoryBlock) bool { return b.NUMAs.Len() > 1 }
	for len(blocks) > 0 {
		var together []MemoryBlock
		together, blocks = connected(blocks)
		switch {
		case !slices.ContainsFunc(together, wide) || len(together) == 1:
		case len(together) > maxOrdered || s.ordersDiffer(kind, together):
			return true
		}
	}
	return false
}

// connected splits off the blocks that share NUMA nodes with the first one, directly or through others.
func connected(blocks []MemoryBlock) (together, others []MemoryBlock) {
	numas := blocks[0].NUMAs
	for n := -1; n != numas.Len(); {
		n = numas.Len()
		for _, b := range blocks {
			if b.NUMAs.AndLen(numas) > 0 {
				numas = numas.Union(b.NUMAs)
			}
		}
	}
	for _, b := range blocks {
		if b.NUMAs.AndLen(numas) == 0 {
			others = append(others, b)
		} else {
			together = append(together, b)
		}
	}
	return together, others
}

// part returns new tables with one kind of memory only, for the NUMA nodes of the blocks.
func (s *MemoryState) part(kind string, blocks []MemoryBlock) map[idset.NUMA]*table {
	out := map[idset.NUMA]*table{}
	for _, b := range blocks {
		for id := range b.NUMAs.All() {
			if _, ok := s.Cells[id]; ok && out[id] == nil {
				out[id] = &table{free: map[string]uint64{kind: s.Free[id][kind]},
					reserved: map[string]uint64{kind: s.Used[id][kind]}}
			}
		}
	}
	return out
}

// ordersDiffer tries all orders of releasing the blocks, and reports whether two of them leave different amounts
// free.
func (s *MemoryState) ordersDiffer(kind string, blocks []MemoryBlock) bool {
	seen := ""
	var try func(done int) bool
	try = func(done int) bool {
		if done == len(blocks) {
			tables := s.part(kind, blocks)
			for _, b := range blocks {
				release(tables, b)
			}
			text := ""
			for _, id := range slices.Sorted(maps.Keys(tables)) {
				text += fmt.Sprint(id, tables[id].free[kind], " ")
			}
			differs := seen != "" && seen != text
			seen = text
			return differs
		}
		for i := done; i < len(blocks); i++ {
			blocks[done], blocks[i] = blocks[i], blocks[done]
			differs := try(done + 1)
			blocks[done], blocks[i] = blocks[i], blocks[done]
			if differs {
				return true
			}
		}
		return false
	}
	return try(0)
}
