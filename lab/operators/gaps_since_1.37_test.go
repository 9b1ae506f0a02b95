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
	// was longer than patience.
	any, longest time.Duration
	heldUp       int
}

// at has the names of the jobs that fit at a time.
func (g *gaps) at(now time.Time, fit []string) {
	if len(g.since) > 0 {
		g.any += now.Sub(g.last)
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
type look struct{ all, asked gaps }

func (l *look) at(now time.Time, fit, asked []string) {
	l.all.at(now, fit)
	l.asked.at(now, asked)
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
}

// result returns the result, and logs the pods that should not be.
func (r *record) result(t *testing.T, took time.Duration, l look) result {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := result{took: took, look: l, requests: r.asked, again: r.again, failed: r.failed, expired: r.expired}
	for _, j := range r.jobs {
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
			if waited, refused = waited || late > patience, refused || p.refused; 0 < late && late <= patience {
				out.twice++
			}
			if p.refused || late > 0 && r.asked > 0 {
				t.Logf("pod of job %s, %d pods of %d CPUs, on %q, refused %t, waited %s: %s", j.name, j.job.pods, j.cpus,
					p.node, p.refused, late, p.why)
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
	if p.waits.IsZero() {
		return 0
	}
	return p.bound.Sub(p.waits)
}

// table returns the results side by side.
func table(quota, check result) string {
	var out strings.Builder
	row := func(what string, of func(r result) string) {
		fmt.Fprintf(&out, "%-62s %11s %11s\n", what, of(quota), of(check))
	}
	count := func(of func(r result) int) func(r result) string {
		return func(r result) string { return fmt.Sprint(of(r)) }
	}
	seconds := func(of func(r result) time.Duration) func(r result) string {
		return func(r result) string { return fmt.Sprintf("%.1f s", of(r).Seconds()) }
	}
	fmt.Fprintf(&out, "%-62s %11s %11s\n", "Kueue starts jobs by", "quota alone", "check")
	row("jobs that were started and whose pods then waited", count(func(r result) int { return r.waited }))
	row("pods of started jobs that had a node only at another attempt", count(func(r result) int { return r.twice }))
	row("longest wait of a pod of a started job", seconds(func(r result) time.Duration { return r.longest }))
	row("jobs with a pod that a kubelet refused", count(func(r result) int { return r.refused }))
	row("CPU seconds of pods while others of their job had no node",
		func(r result) string { return fmt.Sprintf("%.0f", r.inPart) })
	row("queued jobs that fitted for more than a second", count(func(r result) int { return r.all.heldUp }))
	row("  of these after Kueue had asked", count(func(r result) int { return r.asked.heldUp }))
	row("longest time that a queued job fitted", seconds(func(r result) time.Duration { return r.all.longest }))
	row("  after Kueue had asked", seconds(func(r result) time.Duration { return r.asked.longest }))
	row("time in which a queued job fitted", seconds(func(r result) time.Duration { return r.all.any }))
	row("  after Kueue had asked", seconds(func(r result) time.Duration { return r.asked.any }))
	row("requests that Kueue made again, after its back-off", count(func(r result) int { return r.again }))
	row("CPUs with a pod, on average", func(r result) string { return fmt.Sprintf("%.1f", r.busy) })
	row("time for all jobs", seconds(func(r result) time.Duration { return r.took }))
	return out.String()
}
