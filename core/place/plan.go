package place

import (
	"github.com/tenon-numa/tenon/core/topo"
)

// This file answers most yes-or-no questions without tables of masks (hints.go has the rules). It first computes a
// plan, which depends only on the request, the machine and its rules. It then compares the plan with the rows of
// amounts of a usage (ground.go). Such answers are exact for the reasons below. A group is a set of several NUMA
// nodes on which one memory block lies.
//
//  - CPUs add up, and so do devices that belong to one NUMA node each. Whether a mask has enough is then a sum,
//    and if a single NUMA node has enough, no table is needed.
//  - Memory goes to a single NUMA node that is in no group, to several that have no blocks at all, or to a
//    group as it is (memory.go). The manager never assigns anything else.
//  - Under best-effort only memory may fail. If no NUMA nodes are grouped, and the affinity comes from a mask that
//    has the memory, the memory fits: the affinity is that mask, or the manager widens the affinity to that mask.
//
// Where these reasons do not apply, the answer is unsure. Fits then asks the engine, which walks the pod through the
// admission (admit.go).

// answer is the result of comparing a plan with a usage.
type answer int8

const (
	unsure answer = iota
	no
	yes
)

// maxRows bounds the rows of a plan; the engine handles requests that have more.
const maxRows = 8

// row is an amount that a request wants, and the row of amounts that has to supply it. For devices, stock is the
// index in the amounts at which the number of all usable devices of the resource is; the entry before that is the
// number of its usable devices on some NUMA node.
type row struct {
	amount int64
	on     topo.Mask // the NUMA nodes that the hint set ranges over
	at     int32     // index in the amounts at which the row begins
	stock  int32     // 0 for CPUs and memory
}

// stock is how many devices of one resource a request wants on the whole node. at is the index of the usable ones.
type stock struct {
	amount int64
	at     int32
}

// plan is a request of one container, or of a pod that is aligned as a whole, prepared for all usages of one ground.
type plan struct {
	policy Policy
	never  bool // no usage of the ground serves it
	hard   bool // only the engine finds the answer
	// spread: CPUs are spread over NUMA nodes. narrow: the plan does not consider all NUMA nodes that hint sets may
	// prefer, because align-by-socket also prefers whole sockets.
	spread, narrow bool
	closest        bool // among several NUMA nodes distances decide, which plans do not compare
	cores          bool // only whole cores
	cpus           int64
	// rows[:choosy] are CPUs and the devices that are on some NUMA node, rows[choosy:n] are kinds of memory.
	rows      [maxRows]row
	choosy, n int
	pinned    bool      // memory is assigned to NUMA nodes
	near      topo.Mask // NUMA nodes that may appear in every hint set
	// width is the number of NUMA nodes that CPUs and devices prefer: 0 if the request has neither, -1 if their numbers
	// differ. memory is the number that memory prefers.
	width, memory int
	stocks        [maxRows]stock
	stocked       int     // entries of stocks in use
	merging       int     // the most steps of merging all hint sets by tables
	expense       expense // whether merging surely takes too many steps
}

// make prepares a request of one app container, or of a pod that is aligned as a whole. p must be the zero plan.
// exclusive is [Rules.Serves] for the pod.
func (p *plan) make(u *Usage, r *request, exclusive bool) {
	g, rules := u.ground, &u.Rules
	p.policy, p.near, p.never = rules.Topology.Policy, g.all, len(g.bars(exclusive)) > 0
	p.closest = g.localVaries && rules.Topology.PreferClosest
	var universe topo.Mask
	if r.cpus > 0 {
		p.cpus, universe = r.cpus, g.withCPUs
		p.spread, p.narrow = rules.CPU.DistributeAcrossNUMA, rules.CPU.AlignBySocket
		p.cores = rules.CPU.FullPCPUsOnly
		p.never = p.never || p.cores && r.cpus%int64(g.perCore) != 0
		p.want(g, row{at: 0, amount: r.cpus, on: g.withCPUs}, false)
	}
	for _, d := range r.devices {
		at := u.resourceAt(d.Resource)
		if at < 0 {
			continue
		}
		set := &g.sets[at]
		universe |= set.numas
		p.never = p.never || set.healthy == 0
		x := row{at: int32(g.devices(at)), amount: max(0, d.N), on: set.numas, stock: int32(g.usable(at))}
		if set.numas != 0 {
			p.want(g, x, set.shared > 0)
		}
		if p.stocked == maxRows {
			p.hard = true
			return
		}
		p.stocks[p.stocked] = stock{x.amount, x.stock}
		p.stocked++
	}
	p.choosy = p.n
	if p.pinned = len(r.memory) > 0; p.pinned {
		universe = g.all
		p.wantMemory(g, r.memory)
	}
	// The reasons at the top of the file hold only if the memory manager never mixes groups with use of one NUMA node.
	p.hard = p.hard || p.pinned && p.policy != None && !g.keeps
	// The memory manager refuses a container that wants no memory and has no affinity from other hints.
	p.hard = p.hard || exclusive && rules.Memory.Static && !p.pinned
	p.never = p.never || universe.Len() > maxMaskSpace && p.policy != None
	p.merging, p.expense = u.mergeSteps(r, universe.Len())
}

// ready is make for a pod of one app container. It also makes the plan hard if the engine may need too many steps.
func (p *plan) ready(u *Usage, pod *Pod) {
	c, exclusive := &pod.Containers[0], u.Rules.Serves(pod)
	r := request{devices: c.Devices}
	if exclusive && u.Rules.CPU.Static && c.MilliCPU%1000 == 0 {
		r.cpus = c.MilliCPU / 1000
	}
	if exclusive && u.Rules.Memory.Static && c.fraction() < 0 {
		r.memory = c.Memory
	}
	p.make(u, &r, exclusive)
	steps, choice := p.tabling()
	p.hard = p.hard || u.heavy(pod, steps, choice)
}

// want adds a hint set of CPUs or devices. shared is true if a device of the resource is on several NUMA nodes.
func (p *plan) want(g *ground, x row, shared bool) {
	if !p.push(x) {
		return
	}
	p.near &= x.on
	if !p.wide() {
		return
	}
	w := 1
	if least := fewestOf(g.whole[x.at:][:g.numas], x.amount); least > 1 {
		if w = min(least, x.on.Len()); shared {
			w = -1 // devices of several NUMA nodes do not add up
			p.hard = p.hard || p.policy == Restricted
		}
	}
	if p.width == 0 {
		p.width = w
	} else if p.width != w {
		p.width = -1
	}
}

// wantMemory adds the hint set of memory.
func (p *plan) wantMemory(g *ground, memory []Amount) {
	least := 1
	for _, m := range memory {
		k := g.kind(m.Kind)
		if k < 0 {
			p.never, p.hard = p.never || m.Bytes > 0, p.hard || m.Bytes == 0
			continue
		}
		p.hard = p.hard || g.missing[k] != 0
		x := row{at: int32(g.memory(k)), amount: max(0, m.Bytes), on: g.all}
		if !p.push(x) {
			return
		}
		if p.wide() {
			least = max(least, fewestOf(g.whole[x.at:][:g.numas], x.amount))
		}
	}
	if !p.wide() {
		return
	}
	// Several kinds together may need more NUMA nodes than each alone.
	steps := 0
	for p.memory = least; p.memory <= g.numas; p.memory++ {
		switch spans(g.whole, p.rows[p.choosy:p.n], g.all, p.memory, &steps) {
		case yes:
			return
		case unsure:
			p.hard = true
			return
		}
	}
}

// wide reports whether masks of several NUMA nodes may be preferred.
func (p *plan) wide() bool { return p.policy == Restricted || p.policy == BestEffort }

// push adds a row. If there is no space for it, it makes the plan hard and returns false.
func (p *plan) push(x row) bool {
	if p.n == maxRows {
		p.hard = true
		return false
	}
	p.rows[p.n] = x
	p.n++
	return true
}

// ask returns whether a usage of the plan's ground admits the pod, or unsure if only the engine finds out. If it
// searches for several NUMA nodes, it adds the number of entries that it reads to steps.
func (p *plan) ask(u *counts, steps *int) answer {
	if p.never {
		return no
	}
	if p.hard {
		return unsure
	}
	if p.cpus > u.cpus && !u.even && !p.lacksDevices(u) {
		return unsure // on uneven machines the kubelet may give out more CPUs than are free
	}
	if p.lacks(u) {
		return no
	}
	a := unsure
	switch {
	case p.expense == expensive, p.expense == expensiveWithMemory && u.grouped == 0:
		a = p.untabled(u)
	case p.expense == expensiveWithMemory: // the engine has to find out whether memory has hints
	case p.policy == None:
		a = p.anywhere(u)
	case p.policy == SingleNUMA:
		a = p.single(u)
	case p.policy == Restricted:
		a = p.preferred(u, steps)
	case p.policy == BestEffort:
		a = p.nearby(u, steps)
	}
	if a == yes && p.spread && (!u.tidy || p.one(u) < 0) {
		return unsure // a NUMA node to which everything is aligned gives all CPUs, and nothing is spread
	}
	return a
}

// lacks reports whether the whole node has not enough CPUs or devices.
func (p *plan) lacks(u *counts) bool {
	return p.cpus > u.cpus || p.cores && p.cpus > u.cpus-u.halves || p.lacksDevices(u)
}

// lacksDevices reports whether the whole node has not enough devices.
func (p *plan) lacksDevices(u *counts) bool {
	for k := range p.stocked {
		if x := &p.stocks[k]; u.amounts[x.at] < x.amount {
			return true
		}
	}
	return false
}

// anywhere answers under policy none, where only memory may fail.
func (p *plan) anywhere(u *counts) answer {
	if !p.pinned || p.memoryHas(u) {
		return yes
	}
	return no
}

// untabled answers where merging by tables takes too many steps. The verdict is then too complex, unless one NUMA
// node that all hint sets prefer serves them.
func (p *plan) untabled(u *counts) answer {
	switch {
	case p.closest:
		return unsure
	case !p.narrow && p.common() == 1 && p.lowest(u) >= 0:
		return yes
	}
	return no
}

// single answers under single-numa-node.
func (p *plan) single(u *counts) answer {
	switch {
	case p.choosy == 0 && !p.pinned, p.lowest(u) >= 0:
		return yes
	case !p.pinned, u.grouped == 0, !p.serves(u, u.grouped):
		return no
	}
	return p.unlessMemoryHas(u)
}

// unlessMemoryHas answers where hint sets agree on no NUMA nodes. The answer is no if some NUMA nodes serve the
// memory. Otherwise the memory manager gives no hints, so the other hint sets choose, and their NUMA nodes may have
// the memory.
func (p *plan) unlessMemoryHas(u *counts) answer {
	if p.memoryHas(u) {
		return no
	}
	return unsure
}

// lowest returns the position of the lowest NUMA node that serves all hint sets by itself, or -1.
func (p *plan) lowest(u *counts) int {
	in := p.near
	if p.pinned {
		in &^= u.grouped
	}
	return lowestWith(u.amounts, p.rows[:p.n], in)
}

// lowestWith returns the position of the lowest NUMA node of a mask that has everything that the rows want, or -1.
func lowestWith(amounts []int64, rows []row, in topo.Mask) int {
	for ; in != 0; in &= in - 1 {
		if i := in.First(); hasAll(amounts, rows, i) {
			return i
		}
	}
	return -1
}

// hasAll reports whether NUMA node i has everything that the rows want.
func hasAll(amounts []int64, rows []row, i int) bool {
	for k := range rows {
		if amounts[int(rows[k].at)+i] < rows[k].amount {
			return false
		}
	}
	return true
}

// serves reports whether a single NUMA node of a mask has the memory.
func (p *plan) serves(u *counts, in topo.Mask) bool {
	return lowestWith(u.amounts, p.rows[p.choosy:p.n], in) >= 0
}

// together reports whether the NUMA nodes of a mask have the memory together.
func (p *plan) together(u *counts, in topo.Mask) bool {
	return addUp(u.amounts, p.rows[p.choosy:p.n], in)
}

// addUp reports whether the NUMA nodes of a mask together have everything that the rows want.
func addUp(amounts []int64, rows []row, in topo.Mask) bool {
	for k := range rows {
		sum := int64(0)
		for rest := in; rest != 0; rest &= rest - 1 {
			sum += amounts[int(rows[k].at)+rest.First()]
		}
		if sum < rows[k].amount {
			return false
		}
	}
	return true
}

// memoryHas reports whether some NUMA nodes serve the memory: one that is in no group, several without blocks, or a
// group.
func (p *plan) memoryHas(u *counts) bool {
	unused := u.all &^ u.used
	if p.serves(u, u.all&^u.grouped) || unused.Len() > 1 && p.together(u, unused) {
		return true
	}
	for rest := u.grouped; rest != 0; rest &= rest - 1 {
		if c := u.cells[rest.First()].group; c&^u.all == 0 && !u.violates(c) && p.together(u, c) {
			return true
		}
	}
	return false
}

// preferred answers under restricted, where all hint sets have to prefer the same NUMA nodes.
func (p *plan) preferred(u *counts, steps *int) answer {
	if p.choosy == 0 && !p.pinned {
		return yes
	}
	a := no
	switch w := p.common(); {
	case w == 1:
		if p.lowest(u) >= 0 {
			a = yes
		}
	case w > 1:
		a = p.onSeveral(u, w, steps)
	}
	switch {
	case a != no:
		return a
	case p.narrow:
		return unsure
	case !p.pinned, u.grouped == 0, !p.together(u, u.all):
		return no
	}
	return p.unlessMemoryHas(u)
}

// common returns the number of NUMA nodes that all hint sets prefer, or -1 if their numbers differ.
func (p *plan) common() int {
	switch {
	case !p.pinned:
		return p.width
	case p.choosy == 0 || p.width == p.memory:
		return p.memory
	}
	return -1
}

// onSeveral answers whether some w > 1 NUMA nodes serve all hint sets together. With memory, these are a whole group,
// or NUMA nodes without blocks.
func (p *plan) onSeveral(u *counts, w int, steps *int) answer {
	in, rows := p.near, p.rows[:p.n]
	if p.pinned {
		for rest := u.grouped; rest != 0; rest &= rest - 1 {
			c := u.cells[rest.First()].group
			if c.Len() == w && c&^in == 0 && !u.violates(c) && addUp(u.amounts, rows, c) {
				return yes
			}
		}
		in &^= u.used
	}
	return spans(u.amounts, rows, in, w, steps)
}

// nearby answers under policy best-effort, where the topology manager refuses nothing. Memory may fail: it is assigned
// next to the affinity.
func (p *plan) nearby(u *counts, steps *int) answer {
	if !p.pinned {
		return yes
	}
	if u.grouped != 0 {
		switch {
		case !p.together(u, u.all):
			return no
		case p.preferred(u, steps) == yes:
			return yes
		}
		return unsure
	}
	in := u.all // NUMA nodes that may appear in every hint set that has masks
	for k := range p.choosy {
		if x := &p.rows[k]; x.stock == 0 || u.amounts[x.stock-1] >= x.amount {
			in &= x.on
		}
	}
	unused := u.all &^ u.used
	if p.serves(u, in) || (unused&in != 0 || unused == u.all) && p.together(u, unused) {
		return yes
	}
	return no
}
