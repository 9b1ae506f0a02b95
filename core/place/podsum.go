package place

// This file answers questions about pods of several containers without finding out what each container gets.
//
//  - If every container is aligned to one NUMA node wherever one serves it, then a NUMA node that has the sum of what
//    they want serves each of them, whatever NUMA nodes the earlier ones took (oneHas).
//  - Under best-effort only memory on the NUMA nodes, and the amounts of the whole node, decide. If a container's
//    memory goes to one unknown NUMA node, a later container that finds its memory although every NUMA node gave that
//    memory surely fits (loosely).

// addUp sets sum to what all containers want. It returns false if a container may be aligned to several NUMA nodes
// although one serves it, or may take devices from other NUMA nodes.
func (p *podPlan) addUp(g *ground) bool {
	sum := &p.sum
	sum.policy, sum.near = p.plans[0].policy, g.all
	if g.numas == 1 && sum.policy != None {
		return false
	}
	for i := range p.plans {
		own := &p.plans[i]
		if !own.takesOne() {
			return false
		}
		sum.near, sum.cpus, sum.cores = sum.near&own.near, sum.cpus+own.cpus, sum.cores || own.cores
		for _, x := range own.stocks[:own.stocked] {
			if !sum.addStock(x) {
				return false
			}
		}
		for _, x := range own.rows[:own.choosy] {
			if x.stock != 0 && g.setOf(x.stock).shared > 0 || !sum.addRow(x) {
				return false
			}
		}
	}
	sum.choosy = sum.n
	for i := range p.plans { // rows of memory come last
		own := &p.plans[i]
		sum.pinned = sum.pinned || own.pinned
		for _, x := range own.rows[own.choosy:own.n] {
			if !sum.addRow(x) {
				return false
			}
		}
	}
	return sum.cpus >= 0
}

// takesOne reports whether the plan's container is aligned to one NUMA node wherever one serves it.
func (p *plan) takesOne() bool {
	return !p.hard && !p.never && !p.narrow && p.expense == cheap &&
		(!p.wide() || p.n == 0 || p.common() == 1)
}

// addRow adds what a container wants to the plan. It returns false if there are too many rows, or if the sum is too
// large a number.
func (p *plan) addRow(x row) bool {
	for k := range p.rows[:p.n] {
		if own := &p.rows[k]; own.at == x.at {
			own.amount += x.amount
			return own.amount >= 0
		}
	}
	return p.push(x)
}

// addStock is addRow for devices of the whole node.
func (p *plan) addStock(x stock) bool {
	for k := range p.stocks[:p.stocked] {
		if own := &p.stocks[k]; own.at == x.at {
			own.amount += x.amount
			return own.amount >= 0
		}
	}
	if p.stocked == maxRows {
		return false
	}
	p.stocks[p.stocked] = x
	p.stocked++
	return true
}

// oneHas reports whether one NUMA node has all that the plan wants. Under policy none only memory has to be on it.
func (p *plan) oneHas(u *counts) bool {
	if p.lacks(u) || p.cores && u.halves > 0 {
		return false
	}
	if p.policy != None {
		return p.lowest(u) >= 0
	}
	return !p.pinned || p.serves(u, u.all&^u.grouped)
}

// loosely answers for the containers from the one at position i on, if it is not certain on which NUMA nodes that
// container is. The amounts v admit it; they are changed.
func (p *podPlan) loosely(i int, v *counts) answer {
	// Without groups, and without two unused NUMA nodes that could become one, memory goes to one NUMA node.
	if p.plans[i].policy != BestEffort || v.grouped != 0 || (v.all&^v.used).Len() > 1 || v.halves > 0 {
		return unsure
	}
	for steps := 0; ; i++ {
		own := &p.plans[i]
		switch {
		case own.hard || own.expense != cheap || own.farDevices(v):
			return unsure
		case own.never || own.lacks(v):
			return no
		case own.ask(v, &steps) != yes:
			return unsure
		case i == len(p.plans)-1:
			return yes
		}
		own.bookTotals(v)
		for k := own.choosy; k < own.n; k++ {
			x := &own.rows[k]
			for numa := range v.numas {
				at := int(x.at) + numa
				v.amounts[at] = max(0, v.amounts[at]-x.amount)
			}
		}
	}
}

// farDevices reports whether the plan wants devices that some NUMA node has none of. Then it matters to memory on which
// NUMA nodes they are.
func (p *plan) farDevices(u *counts) bool {
	for k := range p.choosy {
		if x := &p.rows[k]; x.stock != 0 && x.on != u.all {
			return true
		}
	}
	return false
}
