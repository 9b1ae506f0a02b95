package place

import "github.com/tenon-numa/tenon/core/topo"

// podPlan is a pod with any number of containers, prepared for all usages of one ground. Like the kubelet, ask goes
// through the containers in order. It keeps a copy of the free amounts, and reduces it by what each container takes.
// That is exact if the container takes everything from one NUMA node; otherwise the answer may be unsure. Pods that
// only the engine can judge, such as most with init containers and those without any, have hard set.
type podPlan struct {
	// plans has one plan for each container, in order; a pod that is aligned as a whole has one plan.
	plans   []plan
	alone   bool   // the pod is one app container
	whole   bool   // the pod is aligned as a whole
	hard    bool   // only the engine finds the answer
	never   bool   // the pod is too large for every node
	scratch counts // of ask: what earlier containers of the pod leave
	// sum is what all containers want together, if summed is set (podsum.go).
	sum    plan
	summed bool
}

// podPlan prepares a pod for all usages of the ground of u.
func (u *Usage) podPlan(p *Pod) (c podPlan) {
	if p.alone() {
		c.alone, c.plans = true, make([]plan, 1)
		c.plans[0].ready(u, p)
		return c
	}
	if c.never = len(p.TooLarge()) > 0; c.never {
		return c
	}
	if c.hard = p.late || len(p.Containers) == 0; c.hard {
		return c
	}
	rules := &u.Rules
	c.whole = rules.Topology.Policy != None && rules.Topology.Scope == PerPod
	c.hard = !u.tidy || u.localVaries || rules.CPU.PreferAlignByUncoreCaches
	for i := range p.Containers {
		kind := p.Containers[i].Kind
		c.hard = c.hard || kind == Init || kind == Sidecar && c.whole
	}
	if c.hard {
		return c
	}
	a := admission{u: u, pod: p}
	if c.whole {
		c.plans = make([]plan, 1)
		r := a.podRequest()
		c.plans[0].make(u, &r, rules.Serves(p))
	} else {
		c.plans = make([]plan, len(p.Containers))
	}
	for i := range p.Containers {
		var own plan
		r := a.containerRequest(i)
		own.make(u, &r, rules.Serves(p))
		if c.whole {
			c.plans[0].never = c.plans[0].never || own.never
		} else {
			c.plans[i] = own
		}
	}
	steps, choice := 0, false
	for i := range c.plans {
		n, own := c.plans[i].tabling()
		steps, choice = steps+n, choice || own
	}
	c.hard = u.heavy(p, steps, choice)
	c.summed = !c.hard && len(c.plans) > 1 && c.addUp(u.ground)
	return c
}

// ask returns whether a usage of the pod plan's ground admits the pod, or unsure if only the engine finds out. Only
// one goroutine may call it at a time, because it uses p.scratch.
func (p *podPlan) ask(u *counts) answer {
	steps := 0
	switch {
	case p.never:
		return no
	case p.hard:
		return unsure
	case p.whole:
		return p.plans[0].askWhole(u, &steps)
	case len(p.plans) == 1:
		return p.plans[0].ask(u, &steps)
	}
	if p.summed && p.sum.oneHas(u) {
		return yes
	}
	v := &p.scratch
	amounts := append(v.amounts[:0], u.amounts...)
	*v = *u
	v.amounts = amounts
	last := len(p.plans) - 1
	for i := range p.plans[:last] {
		own := &p.plans[i]
		if a := own.ask(v, &steps); a != yes {
			return a
		}
		if !own.book(v) {
			return p.loosely(i, v)
		}
	}
	return p.plans[last].ask(v, &steps)
}

// askWhole is ask for a pod of several app containers that is aligned as a whole.
func (p *plan) askWhole(u *counts, steps *int) answer {
	a := p.ask(u, steps)
	switch {
	case a == yes && p.one(u) < 0, !p.never && p.cores && u.halves > 0:
		// Containers of a pod that is aligned to several NUMA nodes, or to none, may still fail one by one. Whole cores
		// are counted for each container, so an earlier one may take the free CPU of a core with a reserved CPU, and
		// leave the whole cores to the next one.
		return unsure
	case a == no && !p.never && p.expense == cheap && p.pinned && !(policyTable[p.policy].preferred && p.memoryHas(u)):
		return unsure // containers may find memory on different NUMA nodes
	}
	return a
}

// one returns the position of the NUMA node to which the topology manager aligns everything in the plan. It returns
// -1 if the manager aligns to several or to none, or if the machine has only one NUMA node.
func (p *plan) one(u *counts) int {
	if u.numas == 1 || p.narrow || p.policy == None || !policyTable[p.policy].single && p.common() != 1 {
		return -1
	}
	return p.lowest(u)
}

// book subtracts what the plan's container gets from the amounts of u, which the caller owns; u must admit the
// container. If it is not certain what the container gets, book returns false and changes nothing.
func (p *plan) book(u *counts) bool {
	if p.n == 0 && p.stocked == 0 {
		return !p.pinned
	}
	if p.cores && u.halves > 0 {
		return false
	}
	i, from := p.one(u), 0
	if p.policy == None { // CPUs and devices ignore NUMA nodes; memory goes to the lowest one that has it
		i, from = lowestWith(u.amounts, p.rows[p.choosy:p.n], u.all&^u.grouped), p.choosy
	}
	if i < 0 && (p.policy != None || p.pinned) || p.pinned && u.joins(i) {
		return false
	}
	for k := from; k < p.n; k++ {
		if x := &p.rows[k]; x.stock != 0 && x.amount > 0 && u.setOf(x.stock).shared > 0 {
			return false // other NUMA nodes have these devices too
		}
	}
	p.bookTotals(u)
	for k := from; k < p.n; k++ {
		x := &p.rows[k]
		if x.stock != 0 && x.amount > 0 {
			u.amounts[x.stock-1] -= x.amount // see near in ground.go
		}
		u.amounts[int(x.at)+i] -= x.amount
	}
	if p.pinned {
		u.used |= topo.Mask(1) << uint(i)
	}
	return true
}

// bookTotals subtracts what the plan's container gets from the amounts of the whole node.
func (p *plan) bookTotals(u *counts) {
	u.cpus -= p.cpus
	for k := range p.stocked {
		u.amounts[p.stocks[k].at] -= p.stocks[k].amount
	}
}

// joins reports whether the memory group of some other NUMA node contains the one at position i. The caller calls
// it only if no memory is assigned there yet. If joins returns true, memory that is assigned there takes from that
// group.
func (u *counts) joins(i int) bool {
	for rest := u.grouped; rest != 0; rest &= rest - 1 {
		if u.cells[rest.First()].group>>uint(i)&1 != 0 {
			return true
		}
	}
	return false
}
