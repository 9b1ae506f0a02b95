package trial

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/lab/volcano"
)

var (
	jobs    = flag.Int("jobs", 60, "jobs of TestMixedGangs")
	rounds  = flag.Int("rounds", 3, "rounds in which they are created")
	seed    = flag.Uint64("seed", 1, "seed of the jobs")
	compare = flag.Bool("compare", false, "have TestMixedGangs run the same jobs under numa-aware too, and print a table")
)

// mixed returns jobs of 1, 2, 4 or 8 tasks; a third of the jobs has GPUs. Each job fits an empty cluster.
func mixed(n int, seed uint64) (out []job) {
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...int) int { return from[r.IntN(len(from))] }
	for i := range n {
		j := job{name: fmt.Sprintf("job-%03d", i), tasks: pick(1, 2, 4, 8), cpus: pick(2, 4, 8, 12, 20)}
		if r.IntN(3) == 0 {
			j.gpu = pick(1, 2, 4)
			j.tasks, j.cpus = pick(1, 2, 4), pick(4, 8, 16)
		}
		out = append(out, j)
	}
	return out
}

// score counts the results of the jobs under one plugin.
type score struct {
	whole   int // jobs whose tasks all ran at once
	gaveUp  int // jobs that were restarted too often
	stuck   int // jobs that waited in the end although no other one ran
	refused int // pods that kubelets refused
	partial int // jobs with some tasks on nodes and others waiting, when nothing changed any more
	made    int // predictions
	right   int // predictions that the kubelets confirmed
	wrong   int
}

// storm runs all jobs in rounds under one plugin. Before the next round, every other job ends, so that the remaining
// jobs are scattered.
func (c *cluster) storm(plugin string, all []job) (out score) {
	s := c.schedule(plugin)
	partial := map[string]bool{}
	for done, next := 0, 0; done < len(all); {
		for want := min(len(all), next + (len(all)+*rounds-1) / *rounds); next < want; next++ {
			c.submit(all[next].manifest())
		}
		now := c.settle()
		for tries := 0; tries < 3 && len(now.Whole)+len(now.Failed) == 0; tries++ {
			now = c.settle()
		}
		for _, name := range now.Partial {
			partial[name] = true
		}
		c.Logf("%s: %d jobs done, %s, %d pods refused so far", plugin, done, now, len(c.observer.Refused()))
		end := now.Failed
		out.gaveUp += len(now.Failed)
		for i, name := range now.Whole {
			if i%2 == 0 || next == len(all) {
				end = append(end, name)
				out.whole++
			}
		}
		if len(end) == 0 {
			end = slices.Concat(now.Waiting, now.Partial)
			out.stuck += len(end)
			c.Logf("no job runs; the reasons: %q", c.reasons())
		}
		c.remove(end...)
		done += len(end)
	}
	out.refused, out.partial = len(c.observer.Refused()), len(partial)
	if plugin == volcano.Tenon {
		out.made = c.counter(s, "tenon_predictions_made_total", "", "")
		out.right = c.counter(s, "tenon_predictions_total", "result", "confirmed")
		out.wrong = c.counter(s, "tenon_predictions_total", "result", "wrong")
	}
	for _, r := range c.observer.Refused() {
		c.Logf("%s on %s: %s: %s", r.Pod, r.Node, r.Reason, r.Message)
	}
	return out
}

// Jobs of 1, 2, 4 and 8 tasks come and go. No kubelet refuses a task, no gang runs in part, every prediction is right,
// and all jobs run in the end.
func TestMixedGangs(t *testing.T) {
	const nodes = "2xxeon-2s,2xgpu-8"
	all, tasks := mixed(*jobs, *seed), 0
	for _, j := range all {
		tasks += j.tasks
	}
	c := start(t, nodes)
	tenon := c.storm(volcano.Tenon, all)
	if tenon.refused+tenon.partial+tenon.wrong+tenon.gaveUp+tenon.stuck > 0 || tenon.whole != len(all) {
		t.Errorf("of %d jobs under tenon: %+v", len(all), tenon)
	}
	// The other predictions are not judged: a node reported such a task together with the end of another pod, so the
	// order is not known.
	if tenon.right < tasks*3/4 {
		t.Errorf("%d predictions were confirmed, want three quarters of %d at least", tenon.right, tasks)
	}
	if !*compare {
		t.Logf("%d jobs of %d tasks in %d rounds: %+v", len(all), tasks, *rounds, tenon)
		return
	}
	var other score
	t.Run(volcano.NumaAware, func(t *testing.T) {
		c := start(t, nodes)
		other = c.storm(volcano.NumaAware, all)
	})
	t.Logf("%d jobs of %d tasks in %d rounds, seed %d, on %s\n%s", len(all), tasks, *rounds, *seed, nodes,
		table(other, tenon))
}

// table has the scores of two plugins beside each other.
func table(numaAware, tenon score) string {
	var b strings.Builder
	line := func(label string, a, b2 any) { fmt.Fprintf(&b, "%-60s %12v %12v\n", label, a, b2) }
	line("", volcano.NumaAware, volcano.Tenon)
	line("gangs that ran as a whole", numaAware.whole, tenon.whole)
	line("gangs given up after three restarts", numaAware.gaveUp, tenon.gaveUp)
	line("gangs that waited in the end although no other one ran", numaAware.stuck, tenon.stuck)
	line("gangs of which only some tasks had a node", numaAware.partial, tenon.partial)
	line("pods refused by kubelets", numaAware.refused, tenon.refused)
	line("predictions made", "-", tenon.made)
	line("confirmed by kubelets", "-", tenon.right)
	line("wrong", "-", tenon.wrong)
	return b.String()
}
