package place

import (
	"math/bits"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file is the memory manager's Static policy (memorymanager/policy_static.go). The rules are:
//
//  - It serves only Guaranteed pods. It judges memory and hugepages of every size together: one mask must serve all
//    kinds, and the preferred width is the fewest NUMA nodes whose allocatable amounts would serve them.
//  - A block that lies on several NUMA nodes makes them a group; a block on one NUMA node is single-numa use. A NUMA
//    node in a group serves no single-numa use; a NUMA node in single-numa use joins no group; groups that are not
//    equal do not overlap.
//  - If no mask serves, the manager returns no hints, so memory takes no part in the merge. The pod may fail later,
//    when its memory is allocated.
//  - If the merged affinity is too small for the memory, the manager widens it to a mask of its own choice.
//  - The manager has a table for every kind that Linux shows on a NUMA node. Where a NUMA node lacks a requested
//    kind, the manager reads a nil table and panics (calculateHints, isAffinitySatisfyRequest).

// memoryHintSet returns the hint set of all memory kinds of a request together. Its free amounts are the amounts of
// the last kind only, plus what init containers of the pod leave, because each kind overwrites the tables. If no mask
// serves, the hint set is impossible: the manager gives no hints.
func (a *admission) memoryHintSet(l *maskSpace, r *request, t tables) hintSet {
	if !a.work.spend(10*l.count() + len(r.memory)*(6*l.count()+len(r.spare.memory)*len(l.at))) {
		return hintSet{resource: topo.Memory, impossible: true}
	}
	t.open(l, l.size()-1)
	for _, w := range r.memory {
		a.u.sumMemory(l, a.u.kind(w.Kind), t)
		for key, bytes := range r.spare.memory {
			if key.kind == w.Kind {
				t.free[l.dense(key.mask)] += bytes
			}
		}
		t.demand(l, w.Bytes)
	}
	f := t.close(l, hintSet{resource: topo.Memory, kinds: len(r.memory), width: len(a.u.Machine.NUMAs())})
	a.u.keepGroups(l, f.fits)
	f.prefer(l)
	return f
}

// sumMemory fills the tables with the allocatable and free bytes of the kind with this index in u.kinds; -1 is a kind
// that the machine lacks.
func (u *Usage) sumMemory(l *maskSpace, kind int, t tables) {
	for i, at := range l.at {
		t.whole[1<<i], t.free[1<<i] = 0, 0
		if kind >= 0 {
			t.whole[1<<i] = u.whole[u.memory(kind)+at]
			t.free[1<<i] = u.amounts[u.memory(kind)+at]
		}
	}
	l.sum(t.whole)
	l.sum(t.free)
}

// keepGroups clears fits for the masks that new memory cannot have because of the groups on the node.
func (u *Usage) keepGroups(l *maskSpace, fits []bool) {
	for d := 1; d < len(fits); d = l.next(d) {
		if !fits[d] {
			continue
		}
		if mask := l.wide(d); d&(d-1) == 0 {
			fits[d] = mask&u.grouped == 0
		} else if mask&u.used != 0 {
			fits[d] = !u.violates(mask)
		}
	}
}

// violates reports whether a mask of several NUMA nodes, as a group, would overlap single-numa use or another group
// (isAffinityViolatingNUMAAllocations).
func (u *counts) violates(mask topo.Mask) bool {
	if mask.Len() == 1 {
		return false
	}
	for rest := mask; rest != 0; rest &= rest - 1 {
		if i := rest.First(); u.cells[i].blocks > 0 && u.cells[i].group != mask {
			return true
		}
	}
	return false
}

// allocateMemory assigns a container its memory. It returns "", or the kubelet's reason for refusing the pod.
func (a *admission) allocateMemory(i int, h hint) RefusalReason {
	c := &a.pod.Containers[i]
	if !a.u.Rules.Memory.Static || !a.u.Rules.Serves(a.pod) || c.unpinned {
		return ""
	}
	if k := c.fraction(); k >= 0 {
		a.refuse(Reason{Code: Fraction, Container: c.Name, Resource: c.Memory[k].Kind, Want: c.Memory[k].Bytes})
		return UnexpectedAdmissionError
	}
	a.work.spend(len(c.Memory) * (2*a.u.numas + 8))
	mask, ok := a.memoryMask(c, h)
	if !ok || a.u.keeps && a.u.violates(mask) {
		if !a.brief {
			a.refuse(a.memoryReasons(c, h)...)
		}
		return UnexpectedAdmissionError
	}
	if a.brief && a.last(i) {
		return ""
	}
	own := a.entryOf(i)
	for _, w := range c.Memory {
		own.Memory = append(own.Memory, Block{Kind: w.Kind, NUMAs: mask, Bytes: w.Bytes})
	}
	if !a.last(i) {
		a.bookMemory(i)
	}
	a.shrinkInits(i)
	return ""
}

// bookMemory subtracts from the usage the part of a container's memory that does not come from finished init
// containers.
func (a *admission) bookMemory(i int) {
	a.ownUsage()
	for _, b := range a.taken[i].Memory {
		a.u.assign(b.Kind, b.NUMAs, max(0, b.Bytes-a.spare.memory[memoryKey{b.NUMAs, b.Kind}]))
	}
	a.leaveMemory(i)
}

// memoryMask returns the NUMA nodes on which the manager assigns the memory, given the merged affinity h. The second
// result is false if there are none.
func (a *admission) memoryMask(c *Container, h hint) (topo.Mask, bool) {
	if h.set && !a.crashes(c.Name, c.Memory, h.mask) && a.hasFree(h.mask, c.Memory) {
		return h.mask, true
	}
	if a.crashes(c.Name, c.Memory, a.u.all) {
		return 0, false
	}
	if !h.set {
		own, ok := a.ownMask(c, 0)
		if !ok || (h.preferred && !own.preferred) {
			return 0, false
		}
		if h = own; a.hasFree(h.mask, c.Memory) {
			return h.mask, true
		}
	}
	wider, ok := a.ownMask(c, h.mask)
	if !ok || (h.preferred && !wider.preferred) {
		return 0, false
	}
	return wider.mask, true
}

// crashes reports whether the memory manager panics when it looks for memory on the NUMA nodes of a mask, because it
// has no table of one kind there. If it panics, crashes records the reason in a.crash. If no NUMA node at all has the
// kind, a positive want counts as too large and not as a panic, because schedulers bind no such pod.
func (a *admission) crashes(container string, want []Amount, on topo.Mask) bool {
	for _, w := range want {
		var missing topo.Mask
		if k := a.u.kind(w.Kind); k >= 0 {
			missing = a.u.missing[k]
		} else if w.Bytes == 0 && a.u.Rules.Arbiter == ByKubelet {
			missing = a.u.all
		}
		if missing&on == 0 {
			continue
		}
		if a.crash == nil {
			numa := a.u.Machine.NUMAs()[(missing & on).First()].ID
			a.crash = &Reason{Code: NoPages, Container: container, Resource: w.Kind, Want: int64(numa)}
		}
		return true
	}
	return false
}

// hasFree reports whether the mask has the memory free. Like the kubelet, it ignores what init containers leave
// (isAffinitySatisfyRequest).
func (a *admission) hasFree(mask topo.Mask, want []Amount) bool {
	for _, w := range want {
		if a.u.freeOn(mask, w.Kind) < w.Bytes {
			return false
		}
	}
	return true
}

// freeOn returns the free bytes of a kind on all NUMA nodes of a mask together.
func (u *Usage) freeOn(mask topo.Mask, kind string) int64 { return u.kindOn(u.amounts, mask, kind) }

// kindOn returns the sum of the amounts of a kind on the NUMA nodes of a mask.
func (u *Usage) kindOn(amounts []int64, mask topo.Mask, kind string) (sum int64) {
	k := u.kind(kind)
	if k < 0 {
		return 0
	}
	for ; mask != 0; mask &= mask - 1 {
		sum += amounts[u.memory(k)+mask.First()]
	}
	return sum
}

// ownMask returns the manager's own best mask that contains the given one: preferred masks first, then narrow ones,
// then low ones (findBestHint). The second result is false if no such mask fits.
func (a *admission) ownMask(c *Container, contains topo.Mask) (hint, bool) {
	if len(c.Memory) == 0 {
		return hint{}, false
	}
	l := newMaskSpace(a.u.Machine.All())
	if len(l.at) > defaultMaxNUMAs {
		before := a.work
		if h, ok := a.wideMask(c, contains); !a.work.over() || len(l.at) > maxMaskSpace {
			return h, ok
		}
		a.work = before // the search gave up; tables find the answer
		a.work.spend(2 * maxSearch)
	}
	var space room
	r := request{memory: c.Memory, spare: a.spare}
	f := a.memoryHintSet(&l, &r, space.tables(l.size()))
	if a.work.over() {
		return hint{}, false
	}
	need, best := l.dense(contains), 0
	for d, ok := range f.fits {
		if !ok || d&need != need {
			continue
		}
		if best == 0 || betterOwnMask(f.preferred[d], d, f.preferred[best], best) {
			best = d
		}
	}
	return hint{mask: l.wide(best), set: true, preferred: f.preferred[best]}, best != 0
}

// betterOwnMask reports whether ownMask takes the dense mask d rather than best.
func betterOwnMask(preferred bool, d int, bestPreferred bool, best int) bool {
	if preferred != bestPreferred {
		return preferred
	}
	if x, y := bits.OnesCount(uint(d)), bits.OnesCount(uint(best)); x != y {
		return x < y
	}
	return d < best
}

// leaveMemory records what an init container leaves to later containers, and subtracts what an app container or sidecar
// used of it (updatePodReusableMemory).
func (a *admission) leaveMemory(i int) {
	for _, b := range a.taken[i].Memory {
		k := memoryKey{b.NUMAs, b.Kind}
		if a.pod.Containers[i].Kind == Init {
			if a.spare.memory == nil {
				a.spare.memory = map[memoryKey]int64{}
			}
			a.spare.memory[k] = max(a.spare.memory[k], b.Bytes)
		} else if spare := a.spare.memory[k]; spare > 0 {
			a.spare.memory[k] = max(0, spare-b.Bytes)
		}
	}
}

// lent has the blocks of finished init containers that later containers reuse. All are of one kind of memory on the
// same NUMA nodes, in the order of the containers. The blocks before first are used up.
type lent struct {
	blocks []*Block
	first  int
}

// shrinkInits reduces the blocks of earlier init containers by what this container reuses, so that a pod's blocks add
// up to what it holds (updateInitContainersMemoryBlocks). It skips blocks that are used up, so the work grows with the
// number of blocks, and not with the number of pairs of containers. If the container is an init container, its own
// blocks then become available to later containers.
func (a *admission) shrinkInits(i int) {
	if a.brief {
		return // the caller does not need the holdings
	}
	own := a.taken[i].Memory
	for k := range own {
		from := a.lent[memoryKey{own[k].NUMAs, own[k].Kind}]
		for want := own[k].Bytes; from != nil && want > 0 && from.first < len(from.blocks); {
			block := from.blocks[from.first]
			part := min(want, block.Bytes)
			block.Bytes -= part
			if want -= part; block.Bytes == 0 {
				from.first++
			}
		}
	}
	if a.pod.Containers[i].Kind == Init && !a.last(i) {
		a.lend(own)
	}
}

// lend makes the blocks of an init container available to later containers.
func (a *admission) lend(own []Block) {
	if a.lent == nil {
		a.lent = map[memoryKey]*lent{}
	}
	for k := range own {
		key := memoryKey{own[k].NUMAs, own[k].Kind}
		if a.lent[key] == nil {
			a.lent[key] = &lent{}
		}
		a.lent[key].blocks = append(a.lent[key].blocks, &own[k])
	}
}
