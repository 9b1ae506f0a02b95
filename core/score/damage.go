package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file computes the fragmentation cost of a placement: what the placement takes away from the pods that the
// cluster usually runs, in the manner of Fragmentation Gradient Descent (Weng et al., USENIX ATC'23). The cost is how
// much less of the node the shapes of the workload profile can use afterwards. Every node gives the pod the same, so
// the node that loses least is the one whose fragments grow least. There are three differences to the paper:
//
//  - If the node's policy aligns a shape, its room is counted NUMA node by NUMA node: it cannot use devices on one
//    NUMA node and CPUs on another, although the node has both.
//  - Whole pods are counted. In the paper all GPUs of a node are usable as soon as one such task fits, so the
//    last ones, for which no CPUs are left, are no fragment.
//  - Everything that managers assign has a value, not GPUs alone.
//
// Pods are counted by amounts, one shape at a time, and not placed. The result agrees with place for shapes of one
// container on one NUMA node, except for options of the CPU manager, and is close to it for other shapes.

// maxPods bounds how many pods of a shape are counted; no machine has CPUs for more.
const maxPods = topo.MaxCPUs

// fewCells is the number of amounts that fit on the stack: three columns of eight NUMA nodes.
const fewCells = 3 * (8 + 1)

// plenty is the amount per NUMA node in columns that are not aligned.
const plenty = topo.MaxBytes

// space has the free amounts of a node for the shapes of a mix.
type space struct {
	mix  *Mix
	node int     // index of the whole node's amount in a row, after the amounts of the NUMA nodes
	free []int64 // by column, then by position of the NUMA node
	// largest is the total of the NUMA node that has most of a column, free or not; 0 if the node does not align the
	// column.
	largest [maxColumns]int64
	// single are the NUMA nodes that may give memory to a pod on one NUMA node: they are in no group. joint are the
	// NUMA nodes that may give memory to a pod on several: they have no blocks (place, memory.go).
	single, joint topo.Mask
}

// plan is how pods of a shape are counted. A pod is split over some NUMA nodes, with one part on each. A part is each
// of the needs divided by the number of these NUMA nodes.
type plan struct {
	needs []need
	numas int64 // number of NUMA nodes that a pod needs; 0: the node never aligns the shape
}

// taking is what a pod takes of a node: by its verdict, or in amounts. Exactly one of the fields is nil.
type taking struct {
	verdict *place.Verdict
	outline *place.Outline
}

// damage returns the fragmentation cost of what a pod takes: for each shape, the number of pods that are no longer
// possible, times the worth of one, times the weight of the shape, times 2. It includes the loss for the unseen pod.
func (m *Mix) damage(u *place.Usage, t taking, used topo.Mask) (sum int64) {
	sum = m.unseenDamage(u, used)
	if m == nil || len(m.shapes) == 0 {
		return sum
	}
	var few [fewCells]int64 // on the stack; many goroutines with small stacks call this
	s := space{mix: m, free: few[:]}
	s.fill(u)
	policy, all := u.Rules.Topology.Policy, u.Machine.All()
	var plans [MaxShapes]plan
	var parts [MaxShapes]int64 // by shape: parts that fit on NUMA nodes that the pod does not use
	for i := range m.shapes {
		shape, p := &m.shapes[i], &plans[i]
		*p = s.plan(shape, &u.Rules.Topology, int64(s.node))
		parts[i] = s.parts(i, p, all&^used)
		sum += shape.value(policy, s.pods(shape.whole, 1, s.node), p.wholePods(parts[i]+s.parts(i, p, used)))
	}
	s.take(u, t)
	for i := range m.shapes {
		shape, p := &m.shapes[i], &plans[i]
		sum -= shape.value(policy, s.pods(shape.whole, 1, s.node), p.wholePods(parts[i]+s.parts(i, p, used)))
	}
	return max(0, sum)
}

// value is the value of pods of a shape, given how many fit on the whole node, and how many fit aligned. Under
// best-effort, a pod that runs unaligned counts half.
func (s *shape) value(policy place.Policy, node, aligned int64) int64 {
	aligned = min(aligned, node)
	switch policy {
	case place.None:
		return 2 * node * s.worth * s.weight
	case place.BestEffort:
		return (node + aligned) * s.worth * s.weight
	}
	return 2 * aligned * s.worth * s.weight
}

// plan returns how a node aligns a shape: on as few NUMA nodes as its amounts need, each with an equal part. The plan
// is empty if the node never aligns the shape. available is the number of the node's NUMA nodes.
func (s *space) plan(sh *shape, r *place.TopologyRules, available int64) plan {
	if r.Policy == place.None {
		return plan{}
	}
	out := plan{needs: sh.widest, numas: 1}
	if r.Scope == place.PerPod {
		out.needs = sh.whole
	}
	for _, n := range out.needs {
		if largest := s.largest[n.column]; largest > 0 && n.amount > largest*out.numas {
			out.numas = (n.amount + largest - 1) / largest
		}
	}
	if out.numas > available || out.numas > 1 && r.Policy == place.SingleNUMA {
		return plan{}
	}
	return out
}

// wholePods returns how many whole pods the parts are enough for.
func (p *plan) wholePods(parts int64) int64 {
	if p.numas > 1 { // a division takes long
		return parts / p.numas
	}
	return parts
}

// parts counts the parts of the shape at i, by its plan, that fit on some NUMA nodes.
func (s *space) parts(i int, p *plan, on topo.Mask) (sum int64) {
	if p.numas == 0 {
		return 0
	}
	if s.mix.shapes[i].memory {
		if p.numas == 1 {
			on &= s.single
		} else {
			on &= s.joint
		}
	}
	for on != 0 {
		var at int
		at, on = next(on)
		sum += s.pods(p.needs, p.numas, at)
	}
	return sum
}

// pods returns how often the needs, each divided by divisor and rounded up, are free at one position: on a NUMA node,
// or on the whole node (s.node).
func (s *space) pods(needs []need, divisor int64, at int) int64 {
	count, row, cells := int64(maxPods), s.node+1, s.free[at:]
	for i := range needs {
		n := &needs[i]
		free := cells[n.column*row]
		switch {
		case divisor > 1:
			count = min(count, free/((n.amount+divisor-1)/divisor))
		case free < n.amount:
			return 0
		default:
			count = min(count, n.times(free))
		}
	}
	return count
}

// fill counts what is free. It stores the amounts in the array of s.free if that is large enough.
func (s *space) fill(u *place.Usage) {
	s.node = len(u.Machine.NUMAs())
	if cells := len(s.mix.columns) * (s.node + 1); cells > len(s.free) {
		s.free = make([]int64, cells)
	}
	used, grouped := u.MemoryGroups()
	s.single, s.joint = ^grouped, ^used
	for c, name := range s.mix.columns {
		free, whole, total := u.Amounts(name)
		*s.cell(c, s.node) = total
		for i := range free {
			*s.cell(c, i) = free[i]
			s.largest[c] = max(s.largest[c], whole[i])
		}
		if s.unaligned(u, c) {
			s.largest[c] = 0
			for i := range u.Machine.NUMAs() {
				*s.cell(c, i) = plenty
			}
		}
	}
}

// unaligned reports whether the node does not align a column: its manager is off, or the devices have no NUMA nodes.
func (s *space) unaligned(u *place.Usage, c int) bool {
	switch {
	case c == 0:
		return !u.Rules.CPU.Static
	case c < s.mix.firstDevice:
		return !u.Rules.Memory.Static
	}
	return s.largest[c] == 0
}

// take books what a pod takes.
func (s *space) take(u *place.Usage, t taking) {
	if o := t.outline; o != nil {
		s.reduce(0, o.NUMA, o.CPUs)
		s.reduce(0, s.node, o.CPUs)
		for i := range o.Memory {
			s.takeMemory(place.Block{Kind: o.Memory[i].Kind, NUMAs: 1 << uint(o.NUMA), Bytes: o.Memory[i].Bytes})
		}
		return
	}
	hs := t.verdict.Holdings
	f := newFirsts(hs)
	for i := range hs {
		s.takeCPUs(u.Machine, &f, i)
		for _, b := range hs[i].Memory {
			s.takeMemory(b)
		}
		for j := range hs[i].Devices {
			s.takeDevices(u.Machine, &f, i, &hs[i].Devices[j])
		}
	}
}

// takeCPUs books every CPU once, even if an init container leaves it to another container.
func (s *space) takeCPUs(m *topo.Machine, f *firsts, at int) {
	if f.hs[at].CPUs.Empty() {
		return
	}
	first := f.ofCPUs(at)
	for i := range m.NUMAs() {
		held := int64(m.NUMAs()[i].CPUs.AndLen(first))
		s.reduce(0, i, held)
		s.reduce(0, s.node, held)
	}
}

// takeMemory books bytes on the lowest NUMA nodes of a block first, as the memory manager does.
func (s *space) takeMemory(b place.Block) {
	if b.NUMAs.Len() > 1 {
		s.single &^= b.NUMAs
	}
	s.joint &^= b.NUMAs
	for c := 1; c < s.mix.firstDevice; c++ {
		if s.mix.columns[c] != b.Kind {
			continue
		}
		for rest, on := b.Bytes, b.NUMAs; on != 0; {
			var i int
			i, on = next(on)
			part := min(rest, *s.cell(c, i))
			rest -= part
			s.reduce(c, i, part)
			s.reduce(c, s.node, part)
		}
	}
}

// takeDevices books every device once, even if an init container leaves it to another container.
func (s *space) takeDevices(m *topo.Machine, f *firsts, at int, b *place.DeviceBlock) {
	for c := s.mix.firstDevice; c < len(s.mix.columns); c++ {
		if s.mix.columns[c] != b.Resource {
			continue
		}
		r, _ := m.Resource(b.Resource)
		for _, id := range b.IDs {
			if !f.ofDevice(at, b.Resource, id) {
				continue
			}
			s.reduce(c, s.node, 1)
			for on := r.Device(id).NUMAs; on != 0; {
				var i int
				i, on = next(on)
				s.reduce(c, i, 1)
			}
		}
	}
}

// cell points to the free amount of a column on the NUMA node at a position, or on the whole node.
func (s *space) cell(column, at int) *int64 { return &s.free[column*(s.node+1)+at] }

func (s *space) reduce(column, at int, by int64) {
	free := s.cell(column, at)
	*free = max(0, *free-by)
}
