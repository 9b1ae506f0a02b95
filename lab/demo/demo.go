// Package demo shows what Tenon is for: one workload, run twice on the same real kubelets, first under
// the plain kube-scheduler and then with Tenon, and the two results side by side.
//
// Invariant: every number that it prints was counted in the run; both rounds start from empty machines
// and get the same pods in the same order. The package refuses to play a controller beyond what any
// does: a pod that a kubelet refused is created anew, a few times.
package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// Options of a demonstration.
type Options struct {
	Lab   lab.Config
	Scale int    // how often the workload is repeated, for larger clusters; 1..20
	Seed  uint64 // of the order of arrival
	Out   io.Writer
	// Draw draws one machine; it may be nil.
	Draw func(io.Writer, *ledger.Node) error
}

const (
	maxScale     = 20
	roundTimeout = 5 * time.Minute
	// quiet is how long nothing must change before a round counts as settled: a scheduler without
	// events to go by tries a refused shape again within this time.
	quiet = 3 * time.Second
)

// Run runs the demonstration and writes the comparison to Out. Progress goes where o.Lab says.
func Run(ctx context.Context, o Options) (err error) {
	if o.Scale < 1 || o.Scale > maxScale {
		return fmt.Errorf("scale of the workload: %d is outside 1..%d", o.Scale, maxScale)
	}
	say := o.Lab.Progress
	if say == nil {
		say = func(string) {}
	}
	c, err := lab.Start(ctx, o.Lab)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := c.Stop(); err == nil {
			err = stopErr
		}
	}()
	d, err := newDemo(ctx, o, c, say)
	if err != nil {
		return err
	}
	defer d.pods.Stop()
	var rounds []round
	for _, profile := range []struct{ name, yaml string }{{"default", scheduler.Plain}, {"Tenon", scheduler.Tenon}} {
		say(fmt.Sprintf("the workload under the %s scheduler (seed %d)", profile.name, o.Seed))
		r, err := d.round(ctx, profile.name, profile.yaml)
		if err != nil {
			return fmt.Errorf("round of the %s scheduler: %w", profile.name, err)
		}
		say(r.summary())
		rounds = append(rounds, r)
		if profile.yaml != scheduler.Tenon {
			say("all pods are deleted, the machines are empty again")
			if err := d.clear(ctx); err != nil {
				return err
			}
		}
	}
	if o.Draw != nil {
		if err := d.draw(ctx, o.Out, o.Draw); err != nil {
			return err
		}
	}
	return compare(o.Out, c.Nodes, rounds)
}

// demo is a cluster with what the rounds need of it.
type demo struct {
	Options
	cluster *lab.Cluster
	client  kubernetes.Interface
	reader  *kube.Reader
	pods    *workload.Watch
	say     func(string)
}

func newDemo(ctx context.Context, o Options, c *lab.Cluster, say func(string)) (*demo, error) {
	d := &demo{Options: o, cluster: c, say: say}
	var err error
	if d.client, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if d.reader, err = kube.NewReader(c.RESTConfig()); err != nil {
		return nil, err
	}
	d.pods, err = workload.Follow(ctx, d.client)
	return d, err
}

// clear deletes all pods and waits until no machine has anything held.
func (d *demo) clear(ctx context.Context) error {
	if err := d.pods.Clear(ctx, d.client); err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		nodes, _, err := d.reader.Nodes(ctx)
		if err != nil {
			return err
		}
		held := 0
		for _, n := range nodes {
			held += len(n.Entries)
		}
		if held == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for empty machines (%d pods still hold something): %w", held, context.Cause(ctx))
		}
	}
}

func (d *demo) draw(ctx context.Context, w io.Writer, draw func(io.Writer, *ledger.Node) error) error {
	nodes, _, err := d.reader.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := draw(w, n); err != nil {
			return fmt.Errorf("draw %s: %w", n.Name, err)
		}
		fmt.Fprintln(w)
	}
	return nil
}
