package whole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Round has the measurements of one contender in one round. A figure for which too few pods were bound is 0.
type Round struct {
	Contender         string
	Nodes, Pods       int
	Bound             int
	Start             time.Duration // from the start of the scheduler until its first binding
	StartCPU          time.Duration // CPU time until then
	Took              time.Duration // from the first binding to the last, or to the end of a round that was cut
	Rate              float64       // pods bound per second after the first, while it took
	Slope             float64       // the same between 10 % and 90 % of the bound pods
	Ran               float64       // pods per second, from the first binding until the last pod is admitted or refused
	Told              float64       // the same, until all layouts and topologies are published, too
	CPU               time.Duration // of the scheduler from the first binding to the last, per 1,000 pods
	PlaneCPU          time.Duration // of etcd and the API server, likewise
	Peak              int64         // the most memory of the scheduler, in bytes
	Waiting           []Why         // pods without a node
	Cut               time.Duration // when the round was ended although pods were still being bound; else 0
	Judged            Judged
	Written           Written       // by the imitated kubelets and agents
	Whole             Spent         // until all of that is written; zero if not all pods were bound
	JudgedIn, TookAll time.Duration // of the check by the managers, and of the whole round with it
	Traced            []Traced      // the ways of the bound pods, if they were traced
	began             time.Time
}

// Spent is the CPU time of the processes of a round after its first bindings.
type Spent struct{ Scheduler, Plane, Nodes time.Duration }

// Refused returns the number of pods that the kubelet's managers refuse.
func (r Round) Refused() (n int) {
	for _, k := range r.Judged.Refused {
		n += k
	}
	return n
}

func (r Round) line() string {
	cut := ""
	if r.Cut > 0 {
		cut = fmt.Sprintf(" in %.0fs (cut)", r.Cut.Seconds())
	}
	return fmt.Sprintf("%s: %d of %d pods bound%s, %s/s (10-90 %%: %s/s; on nodes: %s/s; told: %s/s), CPU s per 1,000: "+
		"%s, control plane %s; %d MiB, start %s s; %d refused by kubelets (%d differ), judged in %.0fs",
		r.Contender, r.Bound, r.Pods, cut, rate(r.Rate), rate(r.Slope), rate(r.Ran), rate(r.Told), seconds(r.CPU, 2),
		seconds(r.PlaneCPU, 2), r.Peak>>20, seconds(r.Start, 1), r.Refused(), r.Judged.Differ, r.JudgedIn.Seconds())
}

// rate returns a number per second; a small one has two digits.
func rate(x float64) string {
	switch {
	case x <= 0:
		return "-"
	case x < 10:
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return fmt.Sprintf("%.0f", x)
}

// seconds returns a time in seconds with some decimals.
func seconds(d time.Duration, decimals int) string {
	if d <= 0 {
		return "-"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', decimals, 64)
}

// round has one contender bind the pods, and checks its placements.
func (a *arena) round(ctx context.Context, c Contender) (r Round, err error) {
	began := time.Now()
	r = Round{Contender: c.Name, Nodes: len(a.cluster.Nodes), Pods: len(a.pods)}
	s, err := a.open(c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	seen, err := follow(ctx, s.client)
	if err != nil {
		return r, err
	}
	defer seen.finish()
	if err := create(ctx, s.client, "new", c.arrivals(a.pods)); err != nil {
		return r, err
	}
	a.say("%s: the cluster is up and %d pods wait", c.Name, len(a.pods))
	end, err := a.play(ctx, c, s, seen, &r)
	if err != nil {
		return r, err
	}
	if err := s.nodes.process.stop(); err != nil {
		return r, err
	}
	pods, bindings := seen.finish()
	r.measure(bindings, end)
	r.Waiting = waitingReasons(pods)
	if a.Trace {
		if r.Traced, err = tracePods(s.dir, r.began, pods, bindings); err != nil {
			return r, err
		}
	}
	at := time.Now()
	r.Judged, err = judge(ctx, a.cluster, byNode(pods, bindings), judges)
	r.JudgedIn, r.TookAll = time.Since(at), time.Since(began)
	return r, err
}

// judges is the number of nodes that are checked concurrently.
const judges = 2

// byNode returns the pods of every node in the order of their bindings.
func byNode(pods map[types.UID]*v1.Pod, bindings []binding) map[string][]*v1.Pod {
	out := map[string][]*v1.Pod{}
	for _, b := range bindings {
		out[b.node] = append(out[b.node], pods[b.pod])
	}
	return out
}

// ends has the times at which things ended in a round.
type ends struct {
	cut       time.Time // the round itself; zero if it was not cut
	settled   time.Time // the last pod was admitted or refused by its node
	published time.Time // the last node had published its layout and topology
}

// measure computes the figures from the bindings. A round that was cut lasts until the cut, even if nothing was bound
// for some time. Otherwise two bindings within a second would count as a rate, even if nothing was bound in the next
// hundred seconds.
func (r *Round) measure(bindings []binding, end ends) {
	n := len(bindings)
	r.Bound = n
	if n < 2 {
		return
	}
	first, last := bindings[0].at, latest(bindings[n-1].at, end.cut)
	r.Took = last.Sub(first)
	r.Rate = perSecond(n-1, r.Took)
	settled := latest(end.settled, last)
	r.Ran = perSecond(n, settled.Sub(first))
	r.Told = perSecond(n, latest(end.published, settled).Sub(first))
	if low, high := n/10, n*9/10; n >= 10 {
		r.Slope = perSecond(high-low, bindings[high].at.Sub(bindings[low].at))
	}
}

func perSecond(n int, d time.Duration) float64 {
	return float64(n) / max(d, time.Millisecond).Seconds()
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// progressInterval is the interval of progress lines.
const progressInterval = 10 * time.Second

// sampling is the interval at which a scheduler's progress is read.
const sampling = 50 * time.Millisecond

// play runs the scheduler until it has bound all pods and the nodes have published their reports of these pods. If it
// binds no more although pods are left, play stops the scheduler before it waits for the reports.
func (a *arena) play(ctx context.Context, c Contender, s *stage, seen *follower, r *Round) (end ends, err error) {
	began := time.Now()
	r.began = began
	p, address, err := c.start(s.dir, s.plane, a.QPS, a.verbosity()...)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if a.Profiles != "" {
		profiling, cancel := context.WithCancel(ctx)
		done := a.profile(profiling, c.Name, s, address)
		plane := a.profile(profiling, c.Name+" API server", s, s.plane.admin.Host)
		defer func() { cancel(); err = errors.Join(err, <-done, <-plane) }()
	}
	m := &meter{scheduler: p, plane: s.plane.process, nodes: s.nodes.process}
	if end.cut, err = a.bind(ctx, began, m, s, seen, r); err != nil {
		return end, err
	}
	if r.Peak, err = p.peak(); err != nil {
		return end, err
	}
	if err := a.writeProfiles(ctx, c.Name, s, address, seen.allBindings()); err != nil {
		return end, err
	}
	// A scheduler that has bound all pods keeps running until the nodes have published, because reading the reports is
	// part of its cost.
	all := r.Bound == len(a.pods)
	if !all {
		if err := p.stop(); err != nil {
			return end, err
		}
	}
	if end.settled, err = a.awaitSettled(ctx, s, seen); err != nil {
		return end, err
	}
	if end.published, err = a.awaitPublished(ctx, s, r); err == nil && all {
		r.Whole, err = m.spent()
		err = cmp.Or(p.failure(), err)
	}
	return end, err
}

// bind waits until the scheduler, which was started at began, has bound all pods or has bound none for the time
// a.Quiet. If that takes longer than a.Most, it cuts the round and returns the time; otherwise it returns the zero
// time.
func (a *arena) bind(ctx context.Context, began time.Time, m *meter, s *stage, seen *follower,
	r *Round) (cut time.Time, err error) {
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for last, printed := began, began; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cut, context.Cause(ctx)
		}
		now := time.Now()
		if err := cmp.Or(m.scheduler.failure(), s.plane.process.failure(), s.nodes.process.failure()); err != nil {
			return cut, err
		}
		moved, err := m.update(seen, began, r)
		if err != nil {
			return cut, err
		}
		if moved {
			last, r.Bound = now, m.bound
		}
		if now.Sub(printed) > progressInterval {
			printed = now
			a.say("%s: %d bound", r.Contender, m.bound)
		}
		switch {
		case m.bound == len(a.pods) || now.Sub(last) > a.Quiet:
			return cut, nil
		case now.Sub(began) > a.Most:
			r.Cut = now.Sub(began)
			return now, nil
		}
	}
}

// meter reads the resources that processes have used whenever more pods are bound.
type meter struct {
	scheduler    fleet
	plane, nodes *process
	bound, first int   // bound pods: now, and at the first reading above 0
	before       Spent // at the first reading above 0
}

// spent returns the CPU time since the first bindings that the meter saw.
func (m *meter) spent() (s Spent, err error) {
	if s, err = m.total(); err == nil {
		s = Spent{s.Scheduler - m.before.Scheduler, s.Plane - m.before.Plane, s.Nodes - m.before.Nodes}
	}
	return s, err
}

// total returns the CPU time since the processes started.
func (m *meter) total() (s Spent, err error) {
	scheduler, err1 := m.scheduler.cpu()
	plane, err2 := m.plane.cpu()
	nodes, err3 := m.nodes.cpu()
	return Spent{scheduler, plane, nodes}, errors.Join(err1, err2, err3)
}

// update reports whether more pods are bound than at the last call, and updates the CPU times of r. The first
// bindings that it sees are left out, because the CPU time until then includes the start of the scheduler.
func (m *meter) update(seen *follower, began time.Time, r *Round) (moved bool, err error) {
	bound, err := seen.countBound()
	if err != nil || bound == m.bound {
		return false, err
	}
	if m.bound == 0 {
		if m.before, err = m.total(); err != nil {
			return false, err
		}
		r.Start, r.StartCPU = time.Since(began), m.before.Scheduler
		m.first = bound
	}
	m.bound = bound
	now, err := m.spent()
	if n := time.Duration(bound - m.first); n > 0 {
		r.CPU, r.PlaneCPU = now.Scheduler*1000/n, now.Plane*1000/n
	}
	return true, err
}

// settleTimeout is how long nodes may take to report the pods that were bound last, and as long again to publish:
// 5,000 nodes may have a layout and a topology to write each, at some milliseconds of CPU time of the API server.
const settleTimeout = 5 * time.Minute

// awaitSettled waits until every bound pod was admitted or refused by its node, and returns when the last one was.
func (a *arena) awaitSettled(ctx context.Context, s *stage, seen *follower) (at time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTimeout, errors.New("nodes are silent"))
	defer cancel()
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for {
		all, settled, last, err := seen.allSettled()
		if err := cmp.Or(err, s.nodes.process.failure()); err != nil || all {
			return last, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, fmt.Errorf("wait for nodes to admit pods (%d are settled): %w", settled, context.Cause(ctx))
		}
	}
}

// awaitPublished waits until every node has published its layout and topology, and returns when the last one had. The
// caller makes sure that no more pods are bound, and that the bound pods are settled.
func (a *arena) awaitPublished(ctx context.Context, s *stage, r *Round) (at time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTimeout, errors.New("nodes are still at it"))
	defer cancel()
	var answer nodesAnswer
	if err := s.nodes.process.ask(ctx, settleSignal, &answer); err != nil {
		return at, fmt.Errorf("wait for nodes to publish: %w", err)
	}
	r.Written = answer.Written.since(s.nodes.begun)
	return answer.Published, nil
}
