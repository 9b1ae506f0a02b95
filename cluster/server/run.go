// Package server is tenon-scheduler: kube-scheduler with Tenon's plugin and what is served beside it.
//
// It wires what kube-scheduler's own command wires, with the plugin's extras: profiles are completed, informers are
// shared with the framework's hints, and inspection is served. Invariant: without the plugin in a profile nothing of
// Tenon runs. The package refuses configurations that kube-scheduler refuses.
package server

import (
	"context"
	"fmt"

	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/sched"
	"github.com/tenon-numa/tenon/core/ledger"
)

// Scheduler is a kube-scheduler with the plugin, ready to run.
type Scheduler struct {
	Shared *sched.Shared
	config *schedconfig.CompletedConfig
	sched  *scheduler.Scheduler
	source inspect.Source
}

// Prepare sets a kube-scheduler up as its own command does, with the plugin and its book. onOutcome, if not nil,
// receives how every prediction came out.
func Prepare(ctx context.Context, opts *options.Options, onOutcome func(ledger.Outcome)) (*Scheduler, error) {
	shared, cc, s, err := setUp(ctx, opts, onOutcome)
	if err != nil {
		return nil, fmt.Errorf("set up scheduler: %w", err)
	}
	shared.Extend(ctx, s)
	return &Scheduler{Shared: shared, config: cc, sched: s, source: shared.Inspection()}, nil
}

// Run schedules until the context ends.
func (s *Scheduler) Run(ctx context.Context) error {
	configz.Delete("componentconfig") // a process-wide name; a scheduler that ran before leaves it
	return app.Run(ctx, s.config, s.sched)
}

// Parts returns the kube-scheduler and its configuration, for a caller that drives it by hand instead of by Run.
func (s *Scheduler) Parts() (*schedconfig.CompletedConfig, *scheduler.Scheduler) {
	return s.config, s.sched
}
