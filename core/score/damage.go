package score

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file computes the fragmentation cost of a placement: what it takes away from the pods that the cluster usually
// runs, in the manner of Fragmentation Gradient Descent (Weng et al., USENIX ATC'23). It measures how much less of the
// node the shapes of the workload profile can use afterwards. Every node gives the pod the same, so the node that loses
// least is the one whose fragments grow least. There are three differences to the paper:
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
	node int               // index of the whole node's amount in a row, after the amounts of the NUMA nodes
	free []int64           // by column, then by position of the NUMA node
	most [maxColumns]int64 // total of the largest NUMA node, free or not; 0 if the node does not align the column
	// single are the NUMA nodes that may give memory to a pod on one NUMA node: they are in no group. joint are the
	// NUMA nodes that may give memory to a pod on several: they have no blocks (place, memory.go).
	single, joint topo.Mask
}

// plan is how pods of a shape are counted. A pod needs over parts, on as many NUMA nodes; a part is each of the
// needs, divided by over.
type plan struct {
	needs []need
	over  int64 // number of NUMA nodes that a pod needs; 0: the node never aligns the shape
}

// taking is what a pod takes of a node: by its verdict, or in amounts. One of the fields is nil.
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
		sum += shape.value(policy, s.pods(shape.whole, 1, s.node), p.whole(parts[i]+s.parts(i, p, used)))
	}
	s.take(u, t)
	for i := range m.shapes {
		shape, p := &m.shapes[i], &plans[i]
		sum -= shape.value(policy, s.pods(shape.whole, 1, s.node), p.whole(parts[i]+s.parts(i, p, used)))
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

// plan returns how a node aligns a shape: on as few NUMA nodes as its amounts need, each with an equal part.
func (s *space) plan(of *shape, r *place.TopologyRules, numas int64) plan {
	if r.Policy == place.None {
		return plan{}
	}
	out := plan{needs: of.widest, over: 1}
	if r.Scope == place.PerPod {
		out.needs = of.whole
	}
	for _, n := range out.needs {
		if most := s.most[n.column]; most > 0 && n.amount > most*out.over {
			out.over = (n.amount + most - 1) / most
		}
	}
	if out.over > numas || out.over > 1 && r.Policy == place.SingleNUMA {
		return plan{}
	}
	return out
}

// whole returns how many whole pods the parts are enough for.
func (p *plan) whole(parts int64) int64 {
	if p.over > 1 { // a division takes long
		return parts / p.over
	}
	return parts
}

// parts counts the parts of the shape at i, by its plan, that fit on some NUMA nodes.
func (s *space) parts(i int, p *plan, on topo.Mask) (sum int64) {
	if p.over == 0 {
		return 0
	}
	if s.mix.shapes[i].memory {
		if p.over == 1 {
			on &= s.single
		} else {
			on &= s.joint
		}
	}
	for on != 0 {
		var at int
		at, on = next(on)
		sum += s.pods(p.needs, p.over, at)
	}
	return sum
}

// pods returns how often the needs, each divided by over and rounded up, are free at one position: on a NUMA node, or
// on the whole node (s.node).
func (s *space) pods(needs []need, over int64, at int) int64 {
	count, row, cells := int64(maxPods), s.node+1, s.free[at:]
	for i := range needs {
		n := &needs[i]
		free := cells[n.column*row]
		switch {
		case over > 1:
			count = min(count, free/((n.amount+over-1)/over))
		case free < n.amount:
			return 0
		default:
			count = min(count, n.times(free))
		}
	}
	return count
}

// fill counts what is free. It uses s.free if that is large enough.
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
			s.most[c] = max(s.most[c], whole[i])
		}
		if s.unaligned(u, c) {
			s.most[c] = 0
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
	case c < s.mix.devices:
		return !u.Rules.Memory.Static
	}
	return s.most[c] == 0
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
	for c := 1; c < s.mix.devices; c++ {
		if s.mix.columns[c] != b.Kind {
			continue
		}
		for left, on := b.Bytes, b.NUMAs; on != 0; {
			var i int
			i, on = next(on)
			part := min(left, *s.cell(c, i))
			left -= part
			s.reduce(c, i, part)
			s.reduce(c, s.node, part)
		}
	}
}

// takeDevices books every device once, even if an init container leaves it to another container.
func (s *space) takeDevices(m *topo.Machine, f *firsts, at int, b *place.DeviceBlock) {
	for c := s.mix.devices; c < len(s.mix.columns); c++ {
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

// cell is the free amount of a column on the NUMA node at a position, or on the whole node.
func (s *space) cell(column, at int) *int64 { return &s.free[column*(s.node+1)+at] }

func (s *space) reduce(column, at int, by int64) {
	free := s.cell(column, at)
	*free = max(0, *free-by)
}
