//go:build !upto1.36

package operators_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// patience is how long a job may have room before it counts as held up, and how long a pod may have no node before it
// counts as waiting. A queue and a scheduler take some time, and a pod may have to be tried again once its node has
// reported.
const patience = time.Second

// gaps are the times at which jobs would have fitted that were not started.
type gaps struct {
	since map[string]time.Time // of the jobs that fit, since when
	last  time.Time            // of the last look
	// any is how long at least one job fitted, and longest how long one fitted at a time. heldUp counts how often that
	// was longer than patience. idle has the CPU seconds without a pod meanwhile.
	any, longest time.Duration
	heldUp       int
	idle         float64
}

// at has the names of the jobs that fit at a time, and how many CPUs have no pod.
func (g *gaps) at(now time.Time, fit []string, idle int) {
	if len(g.since) > 0 {
		g.any += now.Sub(g.last)
		g.idle += now.Sub(g.last).Seconds() * float64(idle)
	}
	g.last = now
	next := map[string]time.Time{}
	for _, name := range fit {
		if next[name] = g.since[name]; next[name].IsZero() {
			next[name] = now
		}
	}
	for name, since := range g.since {
		if _, still := next[name]; still {
			continue
		}
		d := now.Sub(since)
		if g.longest = max(g.longest, d); d > patience {
			g.heldUp++
		}
	}
	g.since = next
}

// look has the gaps of all jobs, and of the jobs that have a request without an answer.
type look struct {
	all, asked gaps
	// broken are the nodes that have too little room for what they keep, and lost counts how often a node became one.
	broken map[string]bool
	lost   int
}

// judge looks at what nodes keep.
func (l *look) judge(s *ledger.Snapshot) {
	broken := map[string]bool{}
	for n := range s.All() {
		if broken[n.Name] = !n.Keeps(); broken[n.Name] && !l.broken[n.Name] {
			l.lost++
		}
	}
	l.broken = broken
}

func (l *look) at(now time.Time, fit, asked []string, idle int) {
	l.all.at(now, fit, idle)
	l.asked.at(now, asked, idle)
}

// fitting returns the names of the jobs that Kueue holds back and that would fit now, by the ledger of the scheduler:
// as places that it could promise, beside all that runs, is on its way or is promised. asked has those that have a
// request. If Kueue does not ask, the pods that it has admitted come first.
func (r *record) fitting(s *ledger.Snapshot, admittedFirst bool) (out, asked []string) {
	var nodes []*state.Node
	promised := map[string]bool{}
	for n := range s.All() {
		nodes = append(nodes, n)
		for _, p := range n.Promised {
			promised[jobOf(strings.TrimPrefix(p.For, "default/"))] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if admittedFirst {
		for _, j := range r.jobs {
			if j.admitted && !j.over {
				nodes, _ = fill(nodes, j.job, j.missing(nodes))
			}
		}
	}
	known := map[string]bool{} // by shape
	for _, j := range r.jobs {
		if !j.there || j.admitted || promised[j.name] {
			continue
		}
		shape := fmt.Sprint(j.job.pods, j.cpus)
		fits, seen := known[shape]
		if !seen {
			var left int
			_, left = fill(nodes, j.job, j.job.pods)
			fits = left == 0
			known[shape] = fits
		}
		if fits {
			out = append(out, j.name)
		}
		if fits && j.asked {
			asked = append(asked, j.name)
		}
	}
	return out, asked
}

// missing returns how many pods of a job no node has.
func (j *jobRecord) missing(nodes []*state.Node) int {
	n := j.job.pods
	for uid, p := range j.pods {
		booked := slices.ContainsFunc(nodes, func(n *state.Node) bool { _, ok := n.Entry(uid); return ok })
		if booked || !p.bound.IsZero() && !p.refused {
			n--
		}
	}
	return max(0, n)
}

// fill promises room to n pods of a job, as far as there is room. It returns the nodes after that, and how many pods
// have none. The nodes of a list do not change. The pods are equal, so no other order leaves room for more of them.
func fill(nodes []*state.Node, j job, n int) ([]*state.Node, int) {
	p := placed(j)
	nodes = slices.Clone(nodes)
	for i := range nodes {
		for n > 0 && !nodes[i].Unsettled {
			next := *nodes[i]
			id := fmt.Sprintf("%s %d", j.name, n)
			next.Promised = append(slices.Clone(next.Promised),
				state.Promised{ID: state.PodID{UID: id, Name: id}, For: j.name, Pod: p})
			if !next.MayPromise() {
				break
			}
			nodes[i] = &next
			n--
		}
	}
	return nodes, n
}

// placed returns a pod of a job as the core has it.
func placed(j job) *place.Pod {
	p, err := pod.ToPlace(j.pod())
	if err != nil {
		panic(fmt.Sprintf("a pod of the test: %v", err))
	}
	return p
}

// result is how a crowd of jobs went.
type result struct {
	took            time.Duration
	waited, refused int           // jobs
	twice           int           // pods that found no node at first, and had one before patience ended
	longest         time.Duration // that an admitted pod waited
	inPart          float64       // CPU seconds that pods had while others of their job had no node
	busy            float64       // CPUs with a pod, on average
	look
	requests, again, failed, expired int
	slowest                          time.Duration  // from the creation of an admitted pod to its binding
	causes                           map[string]int // jobs that waited or were refused, by explanation
	beside                           besides
}

// result returns the result, and logs the pods that should not be.
func (r *record) result(t *testing.T, took time.Duration, l look) result {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := result{took: took, look: l, requests: r.asked, again: r.again, failed: r.failed, expired: r.expired,
		causes: map[string]int{}, beside: r.besides()}
	for _, j := range r.jobs {
		for _, cause := range r.causes(t, j) {
			out.causes[cause]++
		}
		waited, refused := false, false
		var last time.Time
		for _, p := range j.pods {
			if p.bound.After(last) {
				last = p.bound
			}
		}
		for _, p := range j.pods {
			late := p.late()
			out.longest = max(out.longest, late)
			if !p.bound.IsZero() {
				out.slowest = max(out.slowest, p.bound.Sub(p.came))
			}
			if waited, refused = waited || late > patience, refused || p.refused; 0 < late && late <= patience {
				out.twice++
			}
			if p.refused || late > 0 && r.asked > 0 {
				t.Logf("pod of job %s, %d pods of %d CPUs, on %q, refused %t, waited %s: %s", j.name, j.job.pods, j.cpus,
					p.node, p.refused, late, p.why)
			}
			if p.bound.IsZero() {
				continue
			}
			out.busy += p.ended.Sub(p.bound).Seconds() * float64(j.cpus) / took.Seconds()
			out.inPart += last.Sub(p.bound).Seconds() * float64(j.cpus)
		}
		if waited {
			out.waited++
		}
		if refused {
			out.refused++
		}
	}
	return out
}

// late returns how long the pod waited since the scheduler first found no node for it.
func (p *podRecord) late() time.Duration {
	switch {
	case p.waits.IsZero():
		return 0
	case p.bound.IsZero(): // it was deleted
		return p.ended.Sub(p.waits)
	}
	return p.bound.Sub(p.waits)
}

// column is a result in a table.
type column struct {
	name string
	result
}

// rows is a table of results side by side.
type rows struct {
	columns []column
	strings.Builder
}

// add adds a row.
func (t *rows) add(what string, of func(r result) string) {
	fmt.Fprintf(t, "%-62s", what)
	for _, c := range t.columns {
		fmt.Fprintf(t, " %*s", max(11, len(c.name)), of(c.result))
	}
	t.WriteString("\n")
}

func count(of func(r result) int) func(r result) string {
	return func(r result) string { return fmt.Sprint(of(r)) }
}

func seconds(of func(r result) time.Duration) func(r result) string {
	return func(r result) string { return fmt.Sprintf("%.1f s", of(r).Seconds()) }
}

// table returns results side by side.
func table(columns ...column) string {
	t := &rows{columns: columns}
	fmt.Fprintf(t, "%-62s", "Kueue starts jobs by")
	for _, c := range columns {
		fmt.Fprintf(t, " %11s", c.name)
	}
	t.WriteString("\n")
	t.add("jobs that were started and whose pods then waited", count(func(r result) int { return r.waited }))
	t.add("pods of started jobs that had a node only at another attempt", count(func(r result) int { return r.twice }))
	t.add("longest wait of a pod of a started job", seconds(func(r result) time.Duration { return r.longest }))
	t.add("jobs with a pod that a kubelet refused", count(func(r result) int { return r.refused }))
	t.add("CPU seconds of pods while others of their job had no node",
		func(r result) string { return fmt.Sprintf("%.0f", r.inPart) })
	t.add("queued jobs that fitted for more than a second", count(func(r result) int { return r.all.heldUp }))
	t.add("  of these after Kueue had asked", count(func(r result) int { return r.asked.heldUp }))
	t.add("longest time that a queued job fitted", seconds(func(r result) time.Duration { return r.all.longest }))
	t.add("  after Kueue had asked", seconds(func(r result) time.Duration { return r.asked.longest }))
	t.add("time in which a queued job fitted", seconds(func(r result) time.Duration { return r.all.any }))
	t.add("  after Kueue had asked", seconds(func(r result) time.Duration { return r.asked.any }))
	t.add("CPUs without a pod meanwhile, on average",
		func(r result) string { return fmt.Sprintf("%.1f", r.all.idle/max(1e-9, r.all.any.Seconds())) })
	t.add("requests that Kueue made again, after its back-off", count(func(r result) int { return r.again }))
	t.add("CPUs with a pod, on average", func(r result) string { return fmt.Sprintf("%.1f", r.busy) })
	t.add("time for all jobs", seconds(func(r result) time.Duration { return r.took }))
	if slices.ContainsFunc(columns, func(c column) bool { return c.beside.came > 0 }) {
		addCauses(t)
	}
	return t.String()
}
