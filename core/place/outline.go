package place

// This file computes, in amounts, what a pod of one container without devices gets if it gets everything on one NUMA
// node, as most pods do. Few callers need the ids of the CPUs, and picking these is most of the work of a verdict.
// The amounts are exact for the reasons in plan.go, and for one more: on a tidy machine (see ground) the CPU manager
// picks exactly as many CPUs as are wanted, and takes them inside the affinity if that has enough.

// Outline is what a pod gets, in amounts.
type Outline struct {
	// NUMA is the position of the NUMA node on which the pod gets everything, or -1 if it gets nothing of its own.
	NUMA int
	// CPUs is the number of its exclusive CPUs.
	CPUs int64
	// Memory has the bytes of each kind of memory that the pod gets. The caller must not change it.
	Memory []Amount
}

// Outline returns what the pod gets. If ok is true, the node admits the pod, the verdict of [Place] has these
// amounts, and all CPUs are in one last-level cache group. If ok is false, only Place has the answer: the pod may be
// refused, or several containers, devices, several NUMA nodes or options of the CPU manager matter. Outline allocates
// nothing, except at the first question about a machine and its rules.
func (q *Question) Outline(u *Usage) (o Outline, ok bool) {
	c := q.podPlan(u)
	if !c.alone || q.pod.PodLevel {
		return o, false
	}
	p := &c.plans[0]
	switch {
	case p.never, p.hard, p.narrow, p.stocked > 0, !u.tidy, u.localVaries && u.Rules.Topology.PreferClosest,
		p.spread && u.numas == 1:
		return o, false
	case p.cpus == 0 && !p.pinned:
		return Outline{NUMA: -1}, true
	case p.cores && p.cpus > u.cpus-u.halves, p.policy == None && u.numas > 1:
		return o, false
	}
	if row := policyTable[p.policy]; u.numas > 1 && !row.single && p.common() != 1 {
		return o, false
	}
	o.NUMA, o.CPUs = p.lowest(&u.counts), p.cpus
	if o.NUMA < 0 || p.cpus > 0 && !u.oneCache.Has(o.NUMA) {
		return o, false
	}
	if p.pinned {
		o.Memory = q.pod.Containers[0].Memory
	}
	return o, true
}
