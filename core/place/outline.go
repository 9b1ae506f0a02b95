package place

// This file answers in amounts what most pods get: a pod of one container without devices, all of it on one NUMA node.
// Which CPUs these are matters to few callers, and picking them is most of the work of a verdict. The reasons why the
// amounts are exact are those of plan.go, and this one: on a tidy machine the CPU manager picks exactly as many CPUs as
// are wanted, and takes them inside the affinity as long as that has enough.

// Outline is what a pod gets, in amounts.
type Outline struct {
	// NUMA is the position of the NUMA node on which the pod gets everything, or -1 if it gets nothing of its own.
	NUMA int
	// CPUs is the number of its exclusive CPUs.
	CPUs int64
	// Memory has the bytes of each kind of memory that it gets. It must not be changed.
	Memory []Amount
}

// Outline returns what the pod gets. With ok, the node admits the pod, the verdict of [Place] has these amounts, and
// all CPUs are in one last-level cache group. Without ok, only Place has the answer: the pod may be refused, or several
// containers, devices, several NUMA nodes or options of the CPU manager matter. Outline allocates nothing, except at
// the first question about a machine and its rules.
func (q *Question) Outline(u *Usage) (o Outline, ok bool) {
	c := q.podPlan(u)
	if !c.alone || q.pod.PodLevel {
		return o, false
	}
	p := &c.plans[0]
	switch {
	case p.never, p.hard, p.doubt, p.narrow, p.stocked > 0, !u.tidy, u.localVaries && u.Rules.Topology.PreferClosest:
		return o, false
	case p.cpus == 0 && !p.pinned:
		return Outline{NUMA: -1}, true
	case p.cores && p.cpus > u.cpus-u.halves, p.policy == None && u.numas > 1:
		return o, false
	}
	if row := policyTable[p.policy]; u.numas > 1 && !row.single && p.common() != 1 {
		return o, false
	}
	o.NUMA, o.CPUs = p.lowest(u), p.cpus
	if o.NUMA < 0 || p.cpus > 0 && !u.oneCache.Has(o.NUMA) {
		return o, false
	}
	if p.pinned {
		o.Memory = q.pod.Containers[0].Memory
	}
	return o, true
}
