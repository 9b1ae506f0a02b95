// Package demo shows the use of Tenon in four acts: pods that fail under kube-scheduler and run under Tenon; a busy
// cluster; why a pod waits, and what ends the wait; and the same on hundreds of simulated machines. Two more acts are
// played on request: devices from claims, and Volcano's own plugin beside Tenon's.
//
// The first three of the four acts run on one lab cluster with real kubelets, and the last is simulated. The acts
// about claims and Volcano each run on a lab cluster of their own.
//
// Invariant: every number and every message of a kubelet that the package returns was observed in the run, and what it
// writes about numbers follows from them. All schedulers begin with empty machines and get the same pods in the same
// order. The package imitates controllers in one way only: if a kubelet refuses a pod, the package creates the pod
// again, a few times. For the act about claims it also publishes what a driver would.
package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/volcano"
	"github.com/tenon-numa/tenon/lab/workload"
)

// Act is a part of the demonstration.
type Act string

// The acts, in the order in which they are shown.
const (
	Story   Act = "a" // three pods, one after the other
	Busy    Act = "b" // a busy cluster
	Waiting Act = "c" // why a pod waits
	Packing Act = "d" // hundreds of machines
	// Claims is about devices from claims. It is played on request.
	Claims Act = "dra"
)

// Acts returns the acts that are played unless others are requested.
func Acts() []Act { return []Act{Story, Busy, Waiting, Packing} }

// ParseActs reads a comma list of acts; an empty list means [Acts].
func ParseActs(list string) (out []Act, err error) {
	if list == "" {
		return Acts(), nil
	}
	for word := range strings.SplitSeq(list, ",") {
		if !slices.Contains(append(Acts(), Claims), Act(word)) {
			return nil, fmt.Errorf("act %q is none of a, b, c, d, dra", word)
		}
		out = append(out, Act(word))
	}
	return out, nil
}

// Options of a demonstration.
type Options struct {
	// Dir is where the cluster's directory is made, as in [lab.Config].
	Dir  string
	Acts []Act
	// Seed is the seed of [Packing]. [Busy], [Claims] and the act about Volcano run one round for each of Seed, Seed+1,
	// …, Seed+Seeds-1, which determine the order in which pods and jobs arrive.
	Seed  uint64
	Seeds int // 1..MaxSeeds
	// Explain returns the output of "kubectl tenon explain pod" for a pod. [Waiting] needs it.
	Explain func(ctx context.Context, kubeconfig, pod string) (string, error)
	// Volcano has the programs for the act about Volcano, which is played after the Acts. If it is empty, that act is
	// left out.
	Volcano volcano.Programs
	// Progress, if not nil, receives each step, one line at a time.
	Progress func(line string)
}

// MaxSeeds bounds Options.Seeds.
const MaxSeeds = 100

const (
	actTimeout = 2 * time.Minute
	// quiet is how long nothing must change before a round counts as settled. It is long enough for a scheduler to retry
	// a refused shape, even without an event.
	quiet = 2500 * time.Millisecond
)

// Found has the results of a demonstration.
type Found struct {
	document.Demo
	// Died and Ran are the states of the nodes on which the first pod of the story failed under kube-scheduler with its
	// default score, and ran under Tenon. They are nil without that act.
	Died, Ran *state.Node
}

// Run plays the acts, in their fixed order, and returns their results. It starts a cluster only for acts that need
// kubelets.
func Run(ctx context.Context, o Options) (found *Found, err error) {
	if o.Seeds < 1 || o.Seeds > MaxSeeds {
		return nil, fmt.Errorf("%d seeds are outside 1..%d", o.Seeds, MaxSeeds)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	found = &Found{}
	if slices.ContainsFunc(o.Acts, func(a Act) bool { return a != Packing && a != Claims }) {
		if err := o.onCluster(ctx, found); err != nil {
			return nil, err
		}
	}
	if o.plays(Packing) {
		if found.Packing, err = packing(ctx, o.Seed, packingMachines, o.Progress); err != nil {
			return nil, err
		}
	}
	if o.plays(Claims) {
		if found.Claims, err = o.onClaims(ctx); err != nil {
			return nil, err
		}
	}
	if o.Volcano != "" {
		if found.Volcano, err = o.onVolcano(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (o Options) plays(a Act) bool { return slices.Contains(o.Acts, a) }

// onCluster plays the acts that need kubelets.
func (o Options) onCluster(ctx context.Context, found *Found) (err error) {
	d, err := open(ctx, o, lab.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if o.plays(Story) || o.plays(Waiting) {
		if err := d.playFew(ctx, found); err != nil {
			return err
		}
	}
	if o.plays(Busy) {
		found.Busy, err = d.playBusy(ctx)
	}
	return err
}

// demo is the cluster of a demonstration.
type demo struct {
	Options
	cluster *lab.Cluster
	client  kubernetes.Interface
	reader  *kube.Reader
	pods    *workload.Watch
}

// open starts a cluster with the machines of the demonstration, and connects to it. It uses the other settings of cfg.
// The nodes are those of [fleet] if cfg has none.
func open(ctx context.Context, o Options, cfg lab.Config) (d *demo, err error) {
	d = &demo{Options: o}
	cfg.Machines, cfg.Dir, cfg.Progress = machineFiles(), o.Dir, o.Progress
	if cfg.Nodes == nil {
		cfg.Nodes = fleet()
	}
	d.cluster, err = lab.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err = d.connect(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *demo) connect(ctx context.Context) (err error) {
	if d.client, err = kubernetes.NewForConfig(d.cluster.RESTConfig()); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if d.reader, err = kube.NewReader(d.cluster.RESTConfig()); err != nil {
		return err
	}
	d.pods, err = workload.Follow(ctx, d.client)
	return err
}

func (d *demo) close() error {
	if d.pods != nil {
		d.pods.Stop()
	}
	return d.cluster.Stop()
}

// withScheduler starts one scheduler, runs play, and stops the scheduler. onOutcome, if not nil, receives the outcome
// of every prediction.
func (d *demo) withScheduler(profiles string, onOutcome func(state.Outcome), play func() error) error {
	s, err := scheduler.Start(d.cluster.Dir, d.cluster.SchedulerKubeconfig, profiles, onOutcome)
	if err != nil {
		return err
	}
	return errors.Join(play(), s.Stop())
}

// poll is the interval at which the layouts are read while the demonstration waits for a state of the nodes.
const poll = 50 * time.Millisecond

// await reads the nodes until done returns "", and returns them. done returns, as text, what the nodes' states still
// lack.
func (d *demo) await(ctx context.Context, done func([]*state.Node) string) ([]*state.Node, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, actTimeout, fmt.Errorf("not so after %s", actTimeout))
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		nodes, _, err := d.reader.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		missing := done(nodes)
		if missing == "" {
			return nodes, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for nodes (%s): %w", missing, context.Cause(ctx))
		}
	}
}

// awaitReports waits until the nodes have reported all pods that hold something, and returns the nodes.
func (d *demo) awaitReports(ctx context.Context) ([]*state.Node, error) {
	return d.await(ctx, func(nodes []*state.Node) string {
		for _, n := range nodes {
			for _, e := range n.Entries {
				if e.Source == state.Predicted {
					return fmt.Sprintf("node %s has not reported pod %s", n.Name, e.Pod.Name)
				}
			}
		}
		return ""
	})
}

// clearPods deletes all pods and waits until no machine has holdings.
func (d *demo) clearPods(ctx context.Context) error {
	if err := d.pods.Clear(ctx, d.client); err != nil {
		return err
	}
	_, err := d.await(ctx, func(nodes []*state.Node) string {
		held := 0
		for _, n := range nodes {
			held += len(n.Entries)
		}
		if held == 0 {
			return ""
		}
		return fmt.Sprintf("%d pods still hold something", held)
	})
	return err
}
