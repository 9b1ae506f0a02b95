package place

import "github.com/tenon-numa/tenon/core/topo"

// podPlan is a pod of any number of containers, made ready for all usages of one ground. Containers are
// admitted one after the other, so what an earlier one takes is taken off a copy of the amounts: that is
// exact where it takes all from one NUMA node. Pods with init containers, which leave what they had to others,
// are left to the engine.
type podPlan struct {
	// plans are those of the containers, in order; of a pod that is aligned as a whole, that of the pod.
	plans []plan
	whole bool
	hard  bool // only the engine can tell
	never bool // the pod is too large for every node
}

// maxScratch bounds the amounts that are copied for pods of several containers.
const maxScratch = 256

func (u *Usage) podPlan(p *Pod) (c podPlan) {
	if p.alone() {
		c.plans = make([]plan, 1)
		c.plans[0].ready(u, p)
		return c
	}
	if c.never = len(p.TooLarge()) > 0; c.never {
		return c
	}
	rules := &u.Rules
	c.whole = rules.Topology.Policy != None && rules.Topology.Scope == PerPod
	c.hard = !u.tidy || u.selfish || rules.CPU.PreferAlignByUncoreCaches ||
		len(u.whole)+2*len(u.sets) > maxScratch
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
		c.plans[0].make(u, &r, p.Exclusive())
	} else {
		c.plans = make([]plan, len(p.Containers))
	}
	for i := range p.Containers {
		var own plan
		r := a.containerRequest(i)
		own.make(u, &r, p.Exclusive())
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
	return c
}

// ask says whether a usage of the pod plan's ground admits the pod.
func (c *podPlan) ask(u *Usage) answer {
	steps := 0
	switch {
	case c.never:
		return no
	case c.hard:
		return unsure
	case c.whole:
		return c.plans[0].askWhole(u, &steps)
	case len(c.plans) == 1:
		return c.plans[0].ask(u, &steps)
	}
	var scratch [maxScratch]int64
	v := *u
	v.amounts = scratch[:copy(scratch[:], u.amounts)]
	last := len(c.plans) - 1
	for i := range c.plans[:last] {
		p := &c.plans[i]
		if a := p.ask(&v, &steps); a != yes {
			return a
		}
		if !p.book(&v) {
			return unsure
		}
	}
	return c.plans[last].ask(&v, &steps)
}

// askWhole is ask for a pod of several app containers that is aligned as a whole.
func (p *plan) askWhole(u *Usage, steps *int) answer {
	a := p.ask(u, steps)
	switch {
	case a == yes && p.one(u) < 0, !p.never && p.cores && u.halves > 0:
		// Whole cores are counted container by container. An earlier one may take a lone CPU of a core with a
		// reserved CPU, and leave the whole cores to the next one.
		return unsure
	case a == no && !p.never && p.dear == cheap && p.pinned && !(policyTable[p.policy].preferred && p.memoryHas(u)):
		return unsure // containers may find memory apart from each other
	}
	return a
}

// one returns the NUMA node to which the topology manager aligns what the plan wants, or -1 where it takes
// several, or none.
func (p *plan) one(u *Usage) int {
	if u.numas == 1 || p.narrow || p.policy == None || !policyTable[p.policy].single && p.common() != 1 {
		return -1
	}
	return p.lowest(u)
}

// book takes off what a container gets that a usage admits, whose amounts are the caller's own. It
// reports whether it is known what that is.
func (p *plan) book(u *Usage) bool {
	if p.n == 0 && p.stocked == 0 {
		return !p.pinned
	}
	if p.cores && u.halves > 0 {
		return false
	}
	i, from := p.one(u), 0
	if p.policy == None { // no NUMA nodes of CPUs and devices are looked at; memory goes to the lowest that has it
		i, from = first(u.amounts, p.rows[p.choosy:p.n], u.all&^u.grouped), p.choosy
	}
	if i < 0 && p.policy != None || p.pinned && (i < 0 || u.grouped != 0) {
		return false
	}
	u.cpus -= p.cpus
	for k := range p.stocked {
		u.amounts[p.stocks[k].at] -= p.stocks[k].amount
	}
	for k := from; k < p.n; k++ {
		x := &p.rows[k]
		if x.stock != 0 && x.amount > 0 {
			if u.sets[(int(x.stock)-len(u.whole))/2].shared > 0 {
				return false // other NUMA nodes have these devices too
			}
			u.amounts[x.stock-1] -= x.amount
		}
		u.amounts[int(x.at)+i] -= x.amount
	}
	if p.pinned {
		u.used |= topo.Mask(1) << uint(i)
	}
	return true
}
