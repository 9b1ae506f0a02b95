package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// Cluster has the nodes of one case and runs the scheduler.
type Cluster interface {
	// Do carries out an action. It does not wait for the scheduler.
	Do(ctx context.Context, a Action) error
	// Settled waits until nothing changes any more, and returns the nodes and the pods of the case, by their names in the
	// case.
	Settled(ctx context.Context) (State, error)
}

// Action is something that the user of a cluster does. Exactly one field is set.
type Action struct {
	Create  []*v1.Pod // with names as in the case
	End     []string  // names
	Restart *Node     // with the settings of its kubelet after the restart
	Publish *Publish
}

// State is what a cluster has at one moment.
type State struct {
	Nodes []*judge.Node
	Pods  []*v1.Pod
	// BindTimes are the times from the creation of pods to their binding, by pod.
	BindTimes map[string]time.Duration
}

// Result is the result of one case.
type Result struct {
	Case     *Case
	Findings []judge.Finding
	// Pods is the number of pods that were created for the scheduler.
	Pods      int
	BindTimes []time.Duration
	// Err is why the case could not be judged.
	Err error
}

// Counts returns the findings that count on the level of the case.
func (r *Result) Counts() (out []judge.Finding) {
	for _, f := range r.Findings {
		if counts(r.Case.Level, f.Kind) {
			out = append(out, f)
		}
	}
	return out
}

func counts(l Level, k judge.Kind) bool {
	switch k {
	case judge.AvoidableWait:
		return l != Safe
	case judge.AvoidableMisalignment:
		return l == Aligned || l == Exact
	}
	return true
}

// Passed reports whether the case was judged and nothing counts against the scheduler.
func (r *Result) Passed() bool { return r.Err == nil && len(r.Counts()) == 0 }

// Judge finds what a scheduler could have done better.
type Judge interface {
	// Findings returns the findings about a scene, in the order of the pods.
	Findings(ctx context.Context, s *judge.Scene) ([]judge.Finding, error)
}

// Runner plays cases.
type Runner struct {
	Judge Judge
	// Patience is how many times more the cluster must settle before an avoidable wait counts.
	Patience int
}

// Run plays a case on a cluster.
func (r Runner) Run(ctx context.Context, c *Case, on Cluster) *Result {
	p := &play{Runner: r, on: on, out: &Result{Case: c}, pods: map[string]*record{}, nodes: slices.Clone(c.Nodes),
		begun: map[string]bool{}}
	for i := range c.Steps {
		for _, a := range p.actions(&c.Steps[i]) {
			if err := p.do(ctx, a); err != nil {
				p.out.Err = fmt.Errorf("case %s, step %d: %w", c.Name, i+1, err)
				return p.out
			}
		}
	}
	return p.out
}

// play is a case that is played.
type play struct {
	Runner
	on    Cluster
	out   *Result
	nodes []Node // as they are now
	pods  map[string]*record
	order []string        // names of pods, in the order of their creation
	begun map[string]bool // gangs whose needed pods have run
}

// record is what is known of a pod.
type record struct {
	last           *v1.Pod
	foreign, ended bool
	ran, fresh     bool
}

// actions returns the actions of a step, and records the pods that they create.
func (p *play) actions(s *Step) (out []Action) {
	switch {
	case s.Restart != nil:
		n := s.Restart.change(p.nodes)
		return []Action{{Restart: &n}}
	case s.Publish != nil:
		return []Action{{Publish: s.Publish}}
	case len(s.End) > 0:
		return []Action{{End: p.expand(s.End)}}
	}
	var all []*v1.Pod
	for _, set := range slices.Concat(s.Create, s.Burst) {
		for _, name := range set.names() {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *set.Spec.DeepCopy()}
			pod.Spec.NodeName = set.Node
			if set.Gang != "" {
				pod.Labels = map[string]string{GangLabel: set.Gang}
			}
			all = append(all, pod)
		}
	}
	if len(s.Burst) > 0 {
		return []Action{{Create: all}}
	}
	for _, pod := range all {
		out = append(out, Action{Create: []*v1.Pod{pod}})
	}
	return out
}

// expand returns the names of the pods that names of sets and pods stand for.
func (p *play) expand(names []string) (out []string) {
	for _, name := range p.order {
		for _, n := range names {
			if name == n || len(name) > len(n) && name[:len(n)+1] == n+"-" {
				out = append(out, name)
			}
		}
	}
	return out
}

// do carries out an action, waits, and judges.
func (p *play) do(ctx context.Context, a Action) error {
	for _, rec := range p.pods {
		rec.fresh = false
	}
	for _, pod := range a.Create {
		p.pods[pod.Name] = &record{last: pod, foreign: pod.Spec.NodeName != "", fresh: true}
		p.order = append(p.order, pod.Name)
		if pod.Spec.NodeName == "" {
			p.out.Pods++
		}
	}
	for _, name := range a.End {
		p.pods[name].ended = true
	}
	if err := p.on.Do(ctx, a); err != nil {
		return err
	}
	findings, err := p.judge(ctx)
	for range p.Patience {
		if err != nil || !slices.ContainsFunc(findings, func(f judge.Finding) bool { return f.Kind == judge.AvoidableWait }) {
			break
		}
		findings, err = p.judge(ctx)
	}
	if err != nil {
		return err
	}
	for _, f := range findings {
		known := func(g judge.Finding) bool { return g.Kind == f.Kind && g.Pod == f.Pod }
		if !slices.ContainsFunc(p.out.Findings, known) {
			p.out.Findings = append(p.out.Findings, f)
		}
	}
	for _, rec := range p.pods {
		rec.ran = rec.ran || rec.last.Status.Phase == v1.PodRunning
	}
	p.recordGangs(p.out.Case)
	return nil
}

// judge waits until the cluster has settled, and judges it.
func (p *play) judge(ctx context.Context) ([]judge.Finding, error) {
	now, err := p.on.Settled(ctx)
	if err != nil {
		return nil, err
	}
	p.out.BindTimes = nil
	for _, t := range now.BindTimes {
		p.out.BindTimes = append(p.out.BindTimes, t)
	}
	present := map[string]bool{}
	for _, pod := range now.Pods {
		present[pod.Name] = true
		if rec := p.pods[pod.Name]; rec != nil {
			rec.last = pod
		}
	}
	scene := &judge.Scene{Nodes: now.Nodes, Gangs: p.gangs(p.out.Case)}
	for _, name := range p.order {
		rec := p.pods[name]
		scene.Pods = append(scene.Pods, judge.Pod{Pod: rec.last, Fate: rec.fate(present[name]), Foreign: rec.foreign,
			New: rec.fresh, Ran: rec.ran, Gang: rec.last.Labels[GangLabel]})
	}
	return p.Judge.Findings(ctx, scene)
}

// fate returns the outcome of a pod so far.
func (r *record) fate(present bool) judge.Fate {
	switch {
	case r.ended:
		return judge.Ended
	case !present:
		return judge.Evicted
	case r.last.Status.Phase == v1.PodFailed:
		return judge.Refused
	case r.last.Spec.NodeName == "":
		return judge.Waits
	}
	return judge.Runs
}
