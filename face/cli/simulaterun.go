package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// simulation is one run of the command simulate: its input, and the results in rounds.
type simulation struct {
	stage    Stage
	source   string
	rules    whatif.Rules
	countMax bool // --count max
	pending  bool // pods that wait are placed, too
	problems []document.Problem
	without  []leaving // the nodes that are taken away
	// altered are the nodes with changed rules, and added is the number of nodes that joined.
	altered []leaving
	added   int
	needed  *need // nil if it was not computed
	rounds  []round
	// notJudged are objects whose pods are not judged, and why.
	notJudged []string
	groups    []*podGroup // the PodGroups of files, and names of other groups that pods of files have
	partial   string      // what of the cluster was not read; see [Partial]
}

// leaving is a node that is taken away, or that is drained for another configuration. moved is the number of its pods
// that have to be placed again. ended is the number of its pods that end with the node, such as pods of DaemonSets.
type leaving struct {
	node         string
	moved, ended int
}

// round is a list of tasks that are placed one after the other on the same nodes.
type round struct {
	plan  *whatif.Plan
	tasks []*task
}

// task is a workload to place, and the outcome.
type task struct {
	workload *whatif.Workload
	wanted   int       // number of pods
	countMax bool      // place as many as fit, up to wanted
	from     string    // the node that its pods lose; "" if none
	waiting  bool      // the workload is an existing pod without a node
	turn     int       // the number of the task, which makes the names of its pods unique
	gang     *podGroup // the gang with which its pods are placed; nil for most
	outcome  whatif.Outcome
}

func (t *task) placed() int { return len(t.outcome.Placed) }

// unplaced returns the number of pods that have no place; 0 for a task that places as many as fit.
func (t *task) unplaced() int {
	if t.countMax {
		return 0
	}
	return t.wanted - t.placed()
}

// blind returns the number of pods on nodes whose NUMA nodes are not known.
func (t *task) blind() (n int) {
	for _, p := range t.outcome.Placed {
		if p.Blind {
			n++
		}
	}
	return n
}

func (s *simulation) unplaced() (n int) {
	for _, r := range s.rounds {
		for _, t := range r.tasks {
			n += t.unplaced()
		}
	}
	for _, g := range s.groups {
		if g.note == "" {
			n += max(0, g.Least-g.pods) // pods that nothing makes
		}
	}
	return n
}

// lacking returns the number of pods that lack room. Unlike unplaced, it counts of a gang that does not fit only the
// pods for which no place is left beside the others.
func (s *simulation) lacking() (n int) {
	for _, r := range s.rounds {
		for _, t := range r.tasks {
			if t.gang == nil {
				n += t.unplaced()
			}
		}
	}
	for _, g := range s.groups {
		switch {
		case g.outcome == nil:
		case g.outcome.Fits:
			n += len(g.leftOut)
		default:
			n += max(1, len(g.leftOut))
		}
	}
	return n
}

// names returns the nodes on which pods were placed, as kubectl names them.
func (s *simulation) names() (out []string) {
	for _, r := range s.rounds {
		for _, i := range r.plan.Changed() {
			if n := "node/" + r.plan.Nodes()[i].Name; !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out
}

// nodes returns the stage's nodes. The nodes that are taken away are marked as gone.
func (s *simulation) nodes() []whatif.Node {
	out := append([]whatif.Node{}, s.stage.Nodes()...)
	for i := range out {
		for _, g := range s.without {
			out[i].Gone = out[i].Gone || g.node == out[i].Name
		}
	}
	return out
}

// run places the pods of all tasks. With --count max every workload gets a round of its own, so that it does not take
// the room of another.
func (s *simulation) run(tasks []*task, p *progress) error {
	nodes, past := s.nodes(), s.stage.Usual()
	if !s.countMax {
		s.rounds = []round{{s.plan(nodes, past, tasks), tasks}}
	} else {
		for _, t := range tasks {
			s.rounds = append(s.rounds, round{s.plan(nodes, past, []*task{t}), []*task{t}})
		}
	}
	for _, t := range tasks {
		p.all += t.wanted
	}
	if s.countMax {
		p.all = 0 // the number of pods is not known yet
	}
	for i, t := range tasks {
		t.turn = i + 1
	}
	for _, r := range s.rounds {
		for _, t := range r.tasks {
			if err := t.do(r.plan, p); err != nil {
				return fmt.Errorf("simulate %s: %w", t.workload, err)
			}
		}
	}
	return nil
}

// plan returns a plan on the nodes. Its workload profile is made of past pods and of the tasks.
func (s *simulation) plan(nodes []whatif.Node, past []*place.Pod, tasks []*task) *whatif.Plan {
	var all []*whatif.Workload
	for _, t := range tasks {
		all = append(all, t.workload)
	}
	r := s.rules
	r.Strategy.Mix = whatif.Usual(past, all)
	return whatif.New(nodes, r)
}

// do places the pods of a task, or the pods of its whole gang.
func (t *task) do(p *whatif.Plan, progress *progress) (err error) {
	name := func(i int) state.PodID { return t.workload.ID(t.turn, i) }
	switch {
	case t.gang != nil:
		progress.done += t.wanted
		return t.gang.place(p, progress.ctx.Err) // it tries pods more than once
	case t.workload.PerNode:
		t.outcome, t.wanted, err = p.Each(t.workload.Want, name, progress.step)
	default:
		t.outcome, err = p.Fill(t.workload.Want, t.wanted, name, progress.step)
	}
	return err
}

// progress reports the progress of a long simulation on stderr.
type progress struct {
	ctx       context.Context
	w         io.Writer
	search    string // what is searched, in place of numbers; "" for pods that are placed one after the other
	done, all int
	next      time.Time
}

// quiet is the time before the first report of progress, and between two reports.
const quiet = 2 * time.Second

func progressOn(ctx context.Context, w io.Writer) *progress {
	return &progress{ctx: ctx, w: w, next: time.Now().Add(quiet)}
}

// step is called before every pod. It returns an error if the context has ended.
func (p *progress) step() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(quiet)
		switch {
		case p.search != "":
			fmt.Fprintln(p.w, p.search)
		case p.all > 0:
			fmt.Fprintf(p.w, "simulate: pod %d of %d\n", p.done+1, p.all)
		default:
			fmt.Fprintf(p.w, "simulate: pod %d\n", p.done+1)
		}
	}
	p.done++
	return nil
}

// waitingTasks returns the pods that wait for a node. It leaves out those that are being deleted, which no scheduler
// places: they stay as long as their finalizers want.
func waitingTasks(s Stage, stderr io.Writer) (out []*task) {
	var ending []string
	for _, w := range s.Pending() {
		if w.Ending {
			ending = append(ending, w.Namespace+"/"+w.Name)
			continue
		}
		out = append(out, &task{workload: w, wanted: w.Count, waiting: true})
	}
	if n := len(ending); n > 0 {
		fmt.Fprintf(stderr, "Warning: %s being deleted and no scheduler places %s, so --pending leaves %s out: %s\n",
			choose(n, "1 pod is", fmt.Sprintf("%d pods are", n)), choose(n, "it", "them"), choose(n, "it", "them"),
			firstOf(ending, fewNodes, ""))
	}
	return out
}

// remaining returns the problems of the nodes that --without does not take away.
func (s *simulation) remaining() []document.Problem {
	return slices.DeleteFunc(slices.Clone(s.problems), func(p document.Problem) bool {
		return slices.ContainsFunc(s.without, func(x leaving) bool { return x.node == p.Node })
	})
}
