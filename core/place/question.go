package place

// Question asks about one pod on many nodes. It remembers what depends on the pod, the machine and the rules, for all
// usages that are made from one another by [Usage.Hold] or [Usage.Empty]. Most answers are then comparisons of a few
// numbers. A question belongs to one goroutine.
type Question struct {
	pod      *Pod
	prepared []*prepared
	// next is the entry of prepared to replace when prepared is full.
	next int
}

// prepared is the pod plan for the usages of one ground.
type prepared struct {
	ground  *ground
	podPlan podPlan
}

// maxPrepared bounds what a question remembers: a cluster has only a few kinds of machines.
const maxPrepared = 32

// NewQuestion returns a question about a valid pod. The caller must not change the pod as long as it uses the question.
func NewQuestion(p *Pod) *Question { return &Question{pod: p} }

// Fits reports whether the node admits the pod, as [Fits] does.
func (q *Question) Fits(u *Usage) bool {
	if a := q.podPlan(u).ask(&u.counts); a != unsure {
		return a == yes
	}
	return fits(u, u.Rules.managed(q.pod))
}

// FitsAll asks about many usages at once: bit i%64 of out[i/64] is set if us[i] admits the pod. A nil usage admits
// nothing. out must have a word for every 64 usages. FitsAll is faster than a loop over Fits, since it reads the memory
// of many usages before it judges the first of them.
func (q *Question) FitsAll(us []*Usage, out []uint64) {
	for i := 0; i < len(us); i += 64 {
		out[i/64] = q.fits(us[i:min(i+64, len(us))])
	}
}

// fits is FitsAll for at most 64 usages: bit i is set if us[i] admits the pod.
func (q *Question) fits(us []*Usage) (out uint64) {
	var podPlans [64]*podPlan
	var near int64
	for i, u := range us {
		if u != nil {
			podPlans[i] = q.podPlan(u)
		}
	}
	for _, u := range us {
		if u != nil {
			near |= u.amounts[0]
		}
	}
	if near < 0 {
		return 0 // never happens, since amounts are not negative; the loop above only loads memory
	}
	for i, u := range us {
		if u == nil {
			continue
		}
		if a := podPlans[i].ask(&u.counts); a == yes || a == unsure && fits(u, u.Rules.managed(q.pod)) {
			out |= 1 << i
		}
	}
	return out
}

// podPlan returns the plan for the ground of u. It makes the plan if the question does not remember it.
func (q *Question) podPlan(u *Usage) *podPlan {
	for _, m := range q.prepared {
		if m.ground == u.ground {
			return &m.podPlan
		}
	}
	m := &prepared{u.ground, u.podPlan(u.Rules.managed(q.pod))}
	if len(q.prepared) < maxPrepared {
		q.prepared = append(q.prepared, m)
	} else {
		q.prepared[q.next] = m
		q.next = (q.next + 1) % maxPrepared
	}
	return &m.podPlan
}
