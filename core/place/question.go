package place

// Question is a pod made ready to be asked about on many nodes. It remembers what it worked out for the
// machines and rules that it has met, as long as their usages come of one origin (see [Usage.Empty]), so
// that most answers are comparisons of a few numbers. It is not for several goroutines at once.
type Question struct {
	pod *Pod
	met []met
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

func (q *Question) plan(u *Usage) *plan {
	for i := range q.met {
		if q.met[i].ground == u.ground {
			return &q.met[i].plan
		}
	}
	a := admission{u: u, pod: q.pod}
	r := a.containerRequest(0)
	m := met{u.ground, u.plan(&r, q.pod.Exclusive())}
	if len(q.met) < maxMet {
		q.met = append(q.met, m)
		return &q.met[len(q.met)-1].plan
	}
	q.met[q.next] = m
	q.next = (q.next + 1) % maxMet
	return &q.met[(q.next+maxMet-1)%maxMet].plan
}
