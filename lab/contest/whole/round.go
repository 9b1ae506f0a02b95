package whole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Round is what was measured of one contender in one round.
type Round struct {
	Contender         string
	Nodes, Pods       int
	Bound             int
	Start             time.Duration // from the start of the scheduler until its first binding
	StartCPU          time.Duration // that it took for that
	Took              time.Duration // from the first binding to the last
	Rate              float64       // pods bound per second, from the first to the last
	Slope             float64       // the same between 10 % and 90 % of those that were bound
	Ran               float64       // pods per second that nodes have admitted or refused, from the first binding on
	CPU               time.Duration // of the scheduler from the first binding to the last, per 1,000 pods
	PlaneCPU          time.Duration // of etcd and the API server, likewise
	Peak              int64         // the most memory of the scheduler, in bytes
	Waiting           []Why         // pods that got no node
	Cut               bool          // the round was ended though pods were still being bound
	Judged            Judged
	Written           Written // by what stands for kubelets and agents
	JudgedIn, TookAll time.Duration
}

// Refused is how many pods the kubelet's managers refuse.
func (r Round) Refused() (n int) {
	for _, k := range r.Judged.Refused {
		n += k
	}
	return n
}

func (r Round) line() string {
	return fmt.Sprintf("%s: %d of %d pods bound, %.0f/s (10-90 %%: %.0f/s; on nodes: %.0f/s), CPU s per 1,000: %.2f, control plane %.2f; %d MiB, start %.1fs; %d refused by kubelets (%d differ), judged in %.0fs",
		r.Contender, r.Bound, r.Pods, r.Rate, r.Slope, r.Ran, r.CPU.Seconds(), r.PlaneCPU.Seconds(), r.Peak>>20, r.Start.Seconds(), r.Refused(), r.Judged.Differ, r.JudgedIn.Seconds())
}

// round lets one contender bind the pods, and has its placements judged.
func (a *arena) round(ctx context.Context, c Contender) (r Round, err error) {
	began := time.Now()
	r = Round{Contender: c.Name, Nodes: len(a.cluster.Nodes), Pods: len(a.pods)}
	s, err := a.open()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	seen, err := follow(ctx, s.client)
	if err != nil {
		return r, err
	}
	defer seen.stop()
	if err := create(ctx, s.client, "new", a.pods); err != nil {
		return r, err
	}
	a.say("%s: the cluster is up and %d pods wait", c.Name, len(a.pods))
	if err := a.play(ctx, c, s, seen, &r); err != nil {
		return r, err
	}
	if err := s.nodes.process.stop(); err != nil {
		return r, err
	}
	var end nodesAnswer
	if err := s.nodes.process.hear(&end); err != nil {
		return r, err
	}
	r.Written = end.Written
	pods, bindings := seen.end()
	r.measure(bindings, seen.last)
	r.Waiting = waiting(pods)
	at := time.Now()
	r.Judged, err = judge(ctx, a.cluster, byNode(pods, bindings), judges)
	r.JudgedIn, r.TookAll = time.Since(at), time.Since(began)
	return r, err
}

// judges is how many nodes are judged at the same time.
const judges = 2

// byNode returns the pods of every node in the order in which they were bound.
func byNode(pods map[types.UID]*v1.Pod, bindings []binding) map[string][]*v1.Pod {
	out := map[string][]*v1.Pod{}
	for _, b := range bindings {
		out[b.node] = append(out[b.node], pods[b.pod])
	}
	return out
}

// measure computes what follows from the bindings.
func (r *Round) measure(bindings []binding, settled time.Time) {
	n := len(bindings)
	r.Bound = n
	if n < 2 {
		return
	}
	r.Took = bindings[n-1].at.Sub(bindings[0].at)
	r.Rate = float64(n-1) / max(r.Took, time.Millisecond).Seconds()
	r.Ran = float64(n) / max(settled.Sub(bindings[0].at), time.Millisecond).Seconds()
	low, high := n/10, n*9/10
	r.Slope = float64(high-low) / max(bindings[high].at.Sub(bindings[low].at), time.Millisecond).Seconds()
	r.CPU = r.CPU * 1000 / time.Duration(n)
	r.PlaneCPU = r.PlaneCPU * 1000 / time.Duration(n)
}

// telling is how often progress is told.
const telling = 10 * time.Second

// sampling is how often it is looked how far a scheduler is.
const sampling = 50 * time.Millisecond

// play runs the scheduler until it has bound all pods, or binds no more. The CPU times are left as sums in r.
func (a *arena) play(ctx context.Context, c Contender, s *stage, seen *follower, r *Round) (err error) {
	began := time.Now()
	p, address, err := c.start(s.dir, s.plane, a.QPS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if a.Profiles != "" {
		profiling, cancel := context.WithCancel(ctx)
		done := a.profile(profiling, c, s, address)
		defer func() { cancel(); err = errors.Join(err, <-done) }()
	}
	m := meter{scheduler: p, plane: s.plane.process}
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for last, told := began, began; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := time.Now()
		if err := cmp.Or(p.failure(), s.plane.process.failure(), s.nodes.process.failure()); err != nil {
			return err
		}
		moved, err := m.look(seen, began, r)
		if err != nil {
			return err
		}
		if moved {
			last = now
		}
		if now.Sub(told) > telling {
			told = now
			a.say("%s: %d bound", c.Name, m.bound)
		}
		all := m.bound == len(a.pods)
		r.Cut = now.Sub(began) > a.Most
		if all || r.Cut || now.Sub(last) > a.Quiet {
			break
		}
	}
	if r.Peak, err = p.peak(); err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	return a.settled(ctx, s, seen)
}

// meter reads what processes have used whenever more pods are bound.
type meter struct {
	scheduler, plane           *process
	bound                      int
	schedulerFirst, planeFirst time.Duration
}

// look reports whether more pods are bound than before.
func (m *meter) look(seen *follower, began time.Time, r *Round) (moved bool, err error) {
	bound, err := seen.bound()
	if err != nil || bound == m.bound {
		return false, err
	}
	mine, err := m.scheduler.cpu()
	if err != nil {
		return false, err
	}
	theirs, err := m.plane.cpu()
	if err != nil {
		return false, err
	}
	if m.bound == 0 {
		r.Start, r.StartCPU = time.Since(began), mine
		m.schedulerFirst, m.planeFirst = mine, theirs
	}
	m.bound = bound
	r.CPU, r.PlaneCPU = mine-m.schedulerFirst, theirs-m.planeFirst
	return true, nil
}

// settleMost is how long nodes may take to say what became of pods that were bound last.
const settleMost = 2 * time.Minute

// settled waits until every pod that is bound was admitted or refused by its node.
func (a *arena) settled(ctx context.Context, s *stage, seen *follower) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleMost, errors.New("nodes are silent"))
	defer cancel()
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		all, settled, err := seen.allSettled()
		if err := cmp.Or(err, s.nodes.process.failure()); err != nil || all {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for nodes to admit pods (%d have): %w", settled, context.Cause(ctx))
		}
	}
}
