// Package mover keeps pods that share CPUs near the pods with which they exchange data, on a node whose agent pins
// containers. It measures (guests/affinity/traffic), decides (guests/affinity), and has the runtime pin (node/nri).
// It publishes what it measured and decided in the node's NodeAffinity.
//
// Invariant: only pods that opted in are moved, and never a pod with exclusive CPUs or memory of its own. The
// package reads the sockets of pods that opted in, and of pods with exclusive CPUs in the node's network namespace.
// What was decided before the agent ended is read from the object, so that a restart moves no pod. The object is
// written when a decision has changed, and otherwise every few minutes.
//
// The package must run only where the agent is the arbiter. It does not check that; cmd/tenon-agent and node/nri refuse
// to start it elsewhere.
package mover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	core "github.com/tenon-numa/tenon/guests/affinity"
	"github.com/tenon-numa/tenon/guests/affinity/traffic"
	"github.com/tenon-numa/tenon/node/cgroup"
	"github.com/tenon-numa/tenon/node/nri"
)

// Bounds and defaults.
const (
	DefaultPeriod = 15 * time.Second
	MinPeriod     = time.Second
	MaxPeriod     = time.Hour
	// budget is the share of one CPU that reading sockets may take.
	budget = 0.005
	// maxSockets bounds the counters that are kept, some 2 MiB.
	maxSockets = 50000
	// refresh is how often the object is written while no decision changes.
	refresh = 5 * time.Minute
	// writeTime bounds a request to the API server.
	writeTime = 10 * time.Second
)

// Store reads and writes the node's NodeAffinity.
type Store interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*v1alpha1.NodeAffinity, error)
	Apply(ctx context.Context, a *v1alpha1.NodeAffinity) error
}

// Pinner pins containers: an *nri.Plugin.
type Pinner interface {
	// Node returns what pods are pinned to.
	Node() *pin.Node
	// Namespaces returns the paths of the pods' network namespaces, by UID; "" for the node's own.
	Namespaces() map[string]string
	// Near pins the pods in numas, by UID, to these NUMA nodes, and unpins all other pods that share CPUs. If migrate
	// is true, the pods' memory is bound there, too.
	Near(numas map[string]idset.NUMA, migrate bool)
}

// Usage reads what containers use, from their cgroups.
type Usage interface {
	Memory(c cgroup.Container) (cgroup.Memory, error)
	// ID returns the number of the container's cgroup.
	ID(c cgroup.Container) (uint64, error)
}

// Config is what a Runner needs.
type Config struct {
	NodeName string
	Store    Store
	// Owners returns the owners of the object: the Node, so that the object is deleted with the Node.
	Owners func(ctx context.Context) ([]metav1.OwnerReference, error)
	// Namespaces are the namespaces whose pods are measured unless their annotations opt out; "*" means all.
	Namespaces []string
	Period     time.Duration
	// Migrate also binds the memory of moved pods to their NUMA nodes.
	Migrate bool
	// HostNamespace is the path of the node's own network namespace. If it is "", pods in that namespace are not
	// measured.
	HostNamespace string
	Read          traffic.Reader
	// Clock returns the CPU time that was used so far. A round reads the sockets of all pods; with a Clock, it may take
	// several periods. If Clock is nil, every period is a round.
	Clock func() time.Duration
	// Usage may be nil: then pods count as what they request.
	Usage Usage
	// Record receives the outcome of every round; it may be nil.
	Record func(Report)
	Logger logr.Logger
}

// Report is the outcome of a round.
type Report struct {
	core.Result
	// Local and Remote are the measured bytes per second within and between NUMA nodes, after the moves. Seconds is the
	// length of the round, Sockets is how many were read, and Used is the CPU time that reading took.
	Local, Remote int64
	Seconds       float64
	Sockets       int
	Used          time.Duration
}

// Runner measures and decides for one node. Run may be called once.
type Runner struct {
	cfg    Config
	meter  *traffic.Meter
	wishes core.Wishes
	// near has the NUMA nodes to which pods are pinned, by UID; nil until restore has succeeded.
	near       map[string]idset.NUMA
	pinner     Pinner
	roundBegan time.Time // when the present round began
	loads      map[string]*load
	// written is the object that was read at the start or written last, or nil if there is none. writtenAt is the
	// time of the last write.
	written   *v1alpha1.NodeAffinity
	writtenAt time.Time
	move      *v1alpha1.AffinityMove
	owners    []metav1.OwnerReference
	lastError string // the last error that was logged
}

// New returns a Runner that has measured nothing. It returns an error if the period is out of bounds.
func New(cfg Config) (*Runner, error) {
	if cfg.Period < MinPeriod || cfg.Period > MaxPeriod {
		return nil, fmt.Errorf("affinity: period %s is not between %s and %s", cfg.Period, MinPeriod, MaxPeriod)
	}
	return &Runner{cfg: cfg, loads: map[string]*load{}, meter: traffic.New(traffic.Config{Read: cfg.Read,
		Node: cfg.HostNamespace, MaxSockets: maxSockets, Clock: cfg.Clock,
		Budget: time.Duration(float64(cfg.Period) * budget)})}, nil
}

// Run measures and decides in every period until ctx ends. list returns the node's pods. plugin returns what pins
// containers; while it returns nil, Run does nothing.
func (r *Runner) Run(ctx context.Context, list func() []*v1.Pod, plugin func() *nri.Plugin) {
	t := time.NewTicker(r.cfg.Period)
	defer t.Stop()
	for {
		if p := plugin(); p != nil {
			r.step(ctx, list(), p, time.Now())
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// step handles one period. It ends a round, or reads only some of the sockets if reading all takes too long.
func (r *Runner) step(ctx context.Context, pods []*v1.Pod, p Pinner, now time.Time) {
	if r.near == nil && !r.restore(ctx) {
		return
	}
	if r.pinner != p {
		r.pinner = p
		p.Near(maps.Clone(r.near), r.cfg.Migrate)
	}
	all := r.nodePods(pods, p)
	sample, ok := r.meter.Step(r.toMeasure(all, p.Namespaces()), now)
	if !ok {
		return
	}
	seconds := now.Sub(r.roundBegan).Seconds()
	if r.roundBegan.IsZero() {
		seconds = 0
	}
	r.roundBegan = now
	r.complain(sample.Failed)
	in := r.input(all, p.Node(), now)
	for _, pair := range sample.Pairs {
		in.Weights = append(in.Weights, core.Weight{A: pair.A, B: pair.B, Bytes: pair.Bytes})
	}
	result, err := core.Decide(in, core.Defaults(), r.wishes)
	if err != nil {
		r.cfg.Logger.Error(err, "pods that share CPUs stay where they are")
		return
	}
	r.wishes = result.Wishes
	r.follow(result, p)
	out := r.object(all, in, result)
	out.Measured, out.PeriodSeconds = metav1.NewTime(now), int64(seconds)
	out.Sockets, out.Incomplete = int64(sample.Sockets), sample.Incomplete
	if r.cfg.Record != nil {
		r.cfg.Record(Report{Result: result, Local: out.Summary.LocalBytesPerSecond,
			Remote: out.Summary.RemoteBytesPerSecond, Seconds: seconds, Sockets: sample.Sockets, Used: sample.Used})
	}
	r.publish(ctx, out, now)
}

// follow makes the runtime pin pods as decided, if the decision has changed.
func (r *Runner) follow(result core.Result, p Pinner) {
	near := map[string]idset.NUMA{}
	moved := int64(0)
	for _, v := range result.Verdicts {
		if v.Outcome != core.Exclusive && v.NUMA != core.Nowhere {
			near[v.Pod] = v.NUMA
		}
		if v.Outcome == core.Moved {
			moved++
		}
	}
	if moved > 0 {
		r.move = &v1alpha1.AffinityMove{Time: metav1.NewTime(r.roundBegan), Pods: moved, RemoteBefore: result.Before,
			RemoteAfter: result.After}
	}
	if !maps.Equal(near, r.near) {
		r.near = near
		p.Near(maps.Clone(near), r.cfg.Migrate)
	}
}

// restore reads what an agent decided before this one. If there is no object, nothing was decided. restore returns
// false if the object could not be read; then the caller tries again in the next period.
func (r *Runner) restore(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	old, err := r.cfg.Store.Get(ctx, r.cfg.NodeName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.complain(fmt.Errorf("read what was decided before: %w", err))
		return false
	}
	r.near = map[string]idset.NUMA{}
	if err != nil {
		return true
	}
	r.written, r.move = old, old.LastMove
	for _, p := range old.Pods[:min(len(old.Pods), v1alpha1.MaxAffinityPods)] {
		if p.NUMA != nil && idset.Valid(int(*p.NUMA)) && core.Outcome(p.Outcome) != core.Exclusive {
			r.near[p.UID] = idset.NUMA(*p.NUMA)
		}
	}
	return true
}

// publish writes the object if its decisions have changed, or if the last write is older than refresh. It writes
// nothing if neither the object nor the last written one has pods.
func (r *Runner) publish(ctx context.Context, out *v1alpha1.NodeAffinity, now time.Time) {
	if len(out.Pods) == 0 && (r.written == nil || len(r.written.Pods) == 0) {
		return
	}
	if r.written != nil && sameDecisions(out, r.written) && now.Sub(r.writtenAt) < refresh {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if r.owners == nil {
		owners, err := r.cfg.Owners(ctx)
		if err != nil {
			r.complain(err)
			return
		}
		r.owners = owners
	}
	out.OwnerReferences = r.owners
	if err := r.cfg.Store.Apply(ctx, out); err != nil {
		r.complain(err)
		return
	}
	r.written, r.writtenAt = out, now
}

// sameDecisions reports whether two objects have the same decisions.
func sameDecisions(a, b *v1alpha1.NodeAffinity) bool {
	same := func(x, y *int64) bool { return (x == nil) == (y == nil) && (x == nil || *x == *y) }
	return slices.EqualFunc(a.Pods, b.Pods, func(x, y v1alpha1.AffinityPod) bool {
		return x.UID == y.UID && x.Outcome == y.Outcome && same(x.NUMA, y.NUMA) && same(x.Wanted, y.Wanted)
	})
}

// complain logs an error unless it equals the last one. After a nil error, which is not logged, the same error is
// logged again.
func (r *Runner) complain(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != r.lastError {
		r.cfg.Logger.Error(err, "affinity of pods is measured or published in part only")
	}
	r.lastError = text
}
