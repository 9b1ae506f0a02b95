package whole

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// Options are the settings of a measurement.
type Options struct {
	Size synthetic.Size
	Seed uint64
	Pods int // created in a round
	// Contenders take turns, Rounds times each.
	Contenders []Contender
	Rounds     int
	// QPS is the limit of requests of every scheduler, per second and as a burst; 0 means [QPS].
	QPS int
	// Quiet ends a round with waiting pods when nothing was bound for this long; Most ends it in any case.
	Quiet, Most time.Duration
	// Profiles is a folder for a CPU profile, the metrics and the bindings of every scheduler; empty for none.
	Profiles string
	// Trace: the schedulers log at -v=4, and every round has the times of its pods. That costs some of their speed.
	Trace bool
	// Progress receives a line for each step.
	Progress func(line string)
}

// arena is a prepared cluster, with everything that rounds need.
type arena struct {
	Options
	dir     string // everything is below it
	cluster *synthetic.Cluster
	pods    []*v1.Pod
	began   time.Time
}

// Run lets the contenders take turns on one cluster and returns the measurements, in the order of the rounds.
func Run(ctx context.Context, o Options) (out []Round, err error) {
	err = o.withCluster(ctx, func(a *arena) error {
		for n := range o.Rounds {
			for _, c := range o.Contenders {
				r, err := a.round(ctx, c)
				if err != nil {
					return fmt.Errorf("round %d of %s with %d nodes: %w", n+1, c.Name, o.Size.Nodes, err)
				}
				out = append(out, r)
				a.say("%s", r.line())
			}
		}
		return nil
	})
	return out, err
}

// withCluster prepares a cluster, calls play on it, and removes it. It refuses options out of bounds.
func (o Options) withCluster(ctx context.Context, play func(*arena) error) (err error) {
	if o.Pods < 1 || o.Pods > 100_000 || o.Rounds < 1 || len(o.Contenders) == 0 {
		return fmt.Errorf("run %d rounds of %d contenders with %d pods: at least one of each, and at most 100000 pods",
			o.Rounds, len(o.Contenders), o.Pods)
	}
	if o.QPS == 0 {
		o.QPS = QPS
	}
	a := &arena{Options: o, began: time.Now()}
	if a.dir, err = os.MkdirTemp(memoryDir(), "whole-"); err != nil {
		return fmt.Errorf("make a directory for clusters: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(a.dir)) }()
	if a.cluster, err = synthetic.Make(o.Size, o.Seed); err != nil {
		return err
	}
	label(a.cluster)
	if a.pods, err = a.cluster.Arrivals(o.Pods); err != nil {
		return err
	}
	if err := a.prepare(ctx); err != nil {
		return fmt.Errorf("prepare a cluster of %d nodes: %w", o.Size.Nodes, err)
	}
	return play(a)
}

func (a *arena) say(format string, args ...any) {
	if a.Progress != nil {
		a.Progress(fmt.Sprintf("%6.1fs  ", time.Since(a.began).Seconds()) + fmt.Sprintf(format, args...))
	}
}

// template is the folder with the data of the cluster before any round.
func (a *arena) template() string { return filepath.Join(a.dir, "template") }

// prepare makes the data with which every round begins: a static cluster.
func (a *arena) prepare(ctx context.Context) (err error) {
	if err := os.Mkdir(a.template(), 0o700); err != nil {
		return err
	}
	p, err := startPlane(a.template(), filepath.Join(a.dir, "plane.log"), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.process.stop()) }()
	a.say("control plane ready; creating %d nodes and %d pods that run", len(a.cluster.Nodes), len(a.cluster.Pods))
	if err := seed(ctx, p.admin, a.cluster); err != nil {
		return err
	}
	a.say("created (%s); the nodes admit their pods and publish", p.spentText())
	n, err := a.nodes(p, filepath.Join(a.dir, "nodes.log"), false, "")
	if err != nil {
		return err
	}
	a.say("nodes wrote %d statuses and %d layouts (%s)", n.begun.Statuses, n.begun.Layouts, p.spentText())
	return n.process.stop()
}

// nodesProcess is the process that imitates the nodes.
type nodesProcess struct {
	process *process
	begun   Written // what it had written when all nodes had published for the first time
}

// nodes starts the process that imitates the nodes, and returns when all have published.
func (a *arena) nodes(p *plane, log string, topologies bool, trace string) (nodesProcess, error) {
	n, ready, err := startNodes(nodesJob{Host: p.admin.Host, Token: p.admin.BearerToken, CA: p.admin.CAData,
		Topologies: topologies, Trace: trace}, log)
	return nodesProcess{n, ready.Written}, err
}

// stage is the cluster of one round.
type stage struct {
	dir    string
	plane  *plane
	nodes  nodesProcess
	client kubernetes.Interface
}

// open starts the cluster on a new copy of the data. It has NodeResourceTopologies only if the contender reads them.
func (a *arena) open(c Contender) (s *stage, err error) {
	s = &stage{dir: filepath.Join(a.dir, "round")}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := os.CopyFS(s.dir, os.DirFS(a.template())); err != nil {
		return s, fmt.Errorf("copy the data of the cluster: %w", err)
	}
	if s.plane, err = startPlane(s.dir, filepath.Join(a.dir, "plane.log"), c.Topologies); err != nil {
		return s, err
	}
	if s.client, err = typed(s.plane.admin); err != nil {
		return s, err
	}
	trace := ""
	if a.Trace {
		trace = filepath.Join(s.dir, traceFile)
	}
	s.nodes, err = a.nodes(s.plane, filepath.Join(a.dir, "nodes.log"), c.Topologies, trace)
	return s, err
}

// close ends the cluster and removes its data.
func (s *stage) close() error {
	errs := []error{s.nodes.process.stop()}
	if s.plane != nil {
		errs = append(errs, s.plane.process.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
