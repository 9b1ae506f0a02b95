package place

// Question is a pod made ready to be asked about on many nodes. It remembers what it worked out for the
// machines and rules that it has met, as long as their usages come of one origin (see [Usage.Empty]), so
// that most answers are comparisons of a few numbers. It is not for several goroutines at once.
type Question struct {
	pod *Pod
	met []*met
	// next is the entry of met that gives way when all are taken.
	next int
}

type met struct {
	ground *ground
	plan   plan
}

// maxMet bounds what a question remembers: a cluster has a few kinds of machines.
const maxMet = 32

// NewQuestion returns the question whether a pod fits. The pod must not be changed as long as the
// question is used.
func NewQuestion(p *Pod) *Question { return &Question{pod: p} }

// Fits is [Fits] of the question's pod.
func (q *Question) Fits(u *Usage) bool {
	if q.pod.alone() {
		if x := q.plan(u).ask(u); x != unsure {
			return x == yes
		}
	}
	return fits(u, q.pod)
}

// FitsAll asks of many usages at once: the bit of us[i] in the result, i%64 of word i/64, tells whether it
// admits the pod. out must have a word for every 64 usages; nil usages admit nothing. Memory that is far
// away is what takes time here, so it is fetched for many usages before the first of them is judged.
func (q *Question) FitsAll(us []*Usage, out []uint64) {
	for i := 0; i < len(us); i += 64 {
		out[i/64] = q.fits(us[i:min(i+64, len(us))])
	}
}

func (q *Question) fits(us []*Usage) (out uint64) {
	alone := q.pod.alone()
	var plans [64]*plan
	var near int64
	for i, u := range us {
		if alone && u != nil {
			plans[i] = q.plan(u)
		}
	}
	for _, u := range us {
		if u != nil {
			near |= u.amounts[0]
		}
	}
	if near < 0 {
		return 0 // it is not: amounts are not negative
	}
	for i, u := range us {
		if u == nil {
			continue
		}
		a := unsure
		if alone {
			a = plans[i].ask(u)
		}
		if a == yes || a == unsure && fits(u, q.pod) {
			out |= 1 << i
		}
	}
	return out
}

func (q *Question) plan(u *Usage) *plan {
	for _, m := range q.met {
		if m.ground == u.ground {
			return &m.plan
		}
	}
	m := &met{ground: u.ground}
	m.plan.ready(u, q.pod)
	if len(q.met) < maxMet {
		q.met = append(q.met, m)
	} else {
		q.met[q.next] = m
		q.next = (q.next + 1) % maxMet
	}
	return &m.plan
}
