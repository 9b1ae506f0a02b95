package place

import (
	"math/bits"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file is the memory manager's Static policy (memorymanager/policy_static.go). The rules are:
//
//   - Only Guaranteed pods. Memory and hugepages of every size are judged together: one mask must serve
//     all, and the preferred width is the fewest numas whose allocatable amounts would.
//   - A numa that is part of a group of several serves no single-numa use; a numa in single-numa use
//     joins no group; groups that are not equal do not overlap.
//   - Where no mask serves, the manager has no opinion in the merge (it returns no hints), and the pod
//     fails when the memory is allocated.
//   - If the merged affinity is too small for the memory it is widened to a mask of the manager's own.

// memoryFamily is the joint family of all memory kinds of a request.
type memoryFamily struct {
	joint family
	kinds []family // the joint masks, once per kind, with the kind's own free amounts
}

// families returns one family per kind: each picks its mask by itself in the merge. A joint family
// without a mask has no opinion.
func (f memoryFamily) families() []family {
	if f.joint.impossible {
		return nil
	}
	return f.kinds
}

func (a *admission) memoryFamilies(l lattice, want []Amount, s spare) memoryFamily {
	u := a.u
	var f memoryFamily
	if len(want) == 0 {
		f.joint.impossible = true
		return f
	}
	whole := make([][]int64, len(want))
	for k, w := range want {
		whole[k] = l.sums(func(i int) int64 { return u.Allocatable(i, w.Kind) })
		free := l.sums(func(i int) int64 { return u.FreeMemory(i, w.Kind) })
		f.kinds = append(f.kinds, family{resource: w.Kind, want: w.Bytes, free: free, total: free[len(free)-1]})
	}
	serves := func(d int) bool {
		for k, w := range want {
			if whole[k][d] < w.Bytes {
				return false
			}
		}
		return true
	}
	f.joint.width = len(u.Machine.NUMAs())
	f.joint.fill(l, l.size()-1, serves, func(d int) bool {
		mask := l.wide(d)
		if !serves(d) {
			return false
		}
		for k, w := range want {
			if f.kinds[k].free[d]+s.memory[memoryKey{mask, w.Kind}] < w.Bytes {
				return false
			}
		}
		if !u.groupsAllow(mask) {
			f.joint.grouped = true
			return false
		}
		return true
	})
	for k := range f.kinds {
		k := &f.kinds[k]
		k.width, k.fits, k.preferred, k.grouped = f.joint.width, f.joint.fits, f.joint.preferred, f.joint.grouped
	}
	return f
}

// groupsAllow reports whether the manager's groups let new memory be assigned to exactly this mask.
func (u *Usage) groupsAllow(mask topo.Mask) bool {
	if mask.Len() == 1 {
		return u.cells[mask.First()].Len() == 1
	}
	return !u.violates(mask)
}

// violates reports whether a group of several numas meets single-numa use or another group
// (isAffinityViolatingNUMAAllocations).
func (u *Usage) violates(mask topo.Mask) bool {
	if mask.Len() == 1 {
		return false
	}
	for _, i := range mask.Positions() {
		if u.assignments[i] > 0 && u.cells[i] != mask {
			return true
		}
	}
	return false
}

// allocateMemory assigns a container its memory.
func (a *admission) allocateMemory(i int, h hint) Error {
	c := &a.pod.Containers[i]
	if !a.u.Rules.Memory.Static || !a.pod.Exclusive() {
		return ""
	}
	mask, ok := a.memoryMask(c, h)
	if !ok || a.u.violates(mask) {
		a.refuse(a.memoryReasons(c)...)
		return UnexpectedAdmissionError
	}
	a.taken[i] = a.holding(i)
	for _, w := range c.Memory {
		a.taken[i].Memory = append(a.taken[i].Memory, Block{Kind: w.Kind, NUMAs: mask, Bytes: w.Bytes})
		a.u.assign(w.Kind, mask, max(0, w.Bytes-a.spare.memory[memoryKey{mask, w.Kind}]))
	}
	a.leaveMemory(i)
	a.shrinkInits(i)
	return ""
}

// memoryMask returns the numas that the memory is assigned to, given the merged affinity.
func (a *admission) memoryMask(c *Container, h hint) (topo.Mask, bool) {
	if !h.set {
		own, ok := a.ownMask(c, 0)
		if !ok || (h.preferred && !own.preferred) {
			return 0, false
		}
		h = own
	}
	if a.hasFree(h.mask, c.Memory) {
		return h.mask, true
	}
	wider, ok := a.ownMask(c, h.mask)
	if !ok || (h.preferred && !wider.preferred) {
		return 0, false
	}
	return wider.mask, true
}

// hasFree reports whether the mask has the memory free, without what init containers leave
// (isAffinitySatisfyRequest).
func (a *admission) hasFree(mask topo.Mask, want []Amount) bool {
	for _, w := range want {
		var sum int64
		for _, i := range mask.Positions() {
			sum += a.u.FreeMemory(i, w.Kind)
		}
		if sum < w.Bytes {
			return false
		}
	}
	return true
}

// ownMask returns the manager's own best mask that contains the given one: preferred first, then
// narrow, then low (findBestHint).
func (a *admission) ownMask(c *Container, contains topo.Mask) (hint, bool) {
	l := newLattice(a.u.Machine.All())
	if len(l.at) > maxLattice {
		return hint{}, false
	}
	f := a.memoryFamilies(l, c.Memory, a.spare).joint
	if f.impossible {
		return hint{}, false
	}
	need, best := l.dense(contains), 0
	for d, ok := range f.fits {
		if !ok || d&need != need {
			continue
		}
		if best == 0 || narrower(f.preferred[d], d, f.preferred[best], best) {
			best = d
		}
	}
	return hint{mask: l.wide(best), set: true, preferred: f.preferred[best]}, best != 0
}

func narrower(preferred bool, d int, bestPreferred bool, best int) bool {
	if preferred != bestPreferred {
		return preferred
	}
	if x, y := bits.OnesCount(uint(d)), bits.OnesCount(uint(best)); x != y {
		return x < y
	}
	return d < best
}

// leaveMemory keeps account of what an init container leaves to later ones, and takes from it what an
// app container or sidecar used (updatePodReusableMemory).
func (a *admission) leaveMemory(i int) {
	for _, b := range a.taken[i].Memory {
		k := memoryKey{b.NUMAs, b.Kind}
		if a.pod.Containers[i].Kind == Init {
			a.spare.memory[k] = max(a.spare.memory[k], b.Bytes)
		} else if left := a.spare.memory[k]; left > 0 {
			a.spare.memory[k] = max(0, left-b.Bytes)
		}
	}
}

// shrinkInits takes from the blocks of earlier init containers what this container reuses, so that a
// pod's blocks add up to what it holds (updateInitContainersMemoryBlocks).
func (a *admission) shrinkInits(i int) {
	for _, b := range a.taken[i].Memory {
		left := b.Bytes
		for j := 0; j < i && left > 0; j++ {
			if a.pod.Containers[j].Kind != Init {
				continue
			}
			a.taken[j].Memory = slices.Clone(a.taken[j].Memory)
			for k := range a.taken[j].Memory {
				if old := &a.taken[j].Memory[k]; old.Kind == b.Kind && old.NUMAs == b.NUMAs {
					part := min(left, old.Bytes)
					old.Bytes -= part
					left -= part
				}
			}
		}
	}
}
