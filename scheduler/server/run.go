// Package server is tenon-scheduler: kube-scheduler with Tenon's plugin and inspection.
//
// It sets up what kube-scheduler's own command sets up. In addition it completes profiles, shares the plugin's
// informers with the framework, whose queueing hints need them, and serves inspection. Invariant: if no profile
// enables the plugin, no part of Tenon runs. The package refuses configurations that kube-scheduler refuses.
package server

import (
	"context"
	"fmt"

	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/plugin"
)

// Scheduler is a kube-scheduler with the plugin, ready to run.
type Scheduler struct {
	Shared *plugin.Shared
	config *schedconfig.CompletedConfig
	sched  *scheduler.Scheduler
	source inspect.Source
}

// Prepare sets a kube-scheduler up as its own command does, with the plugin and its ledger. It calls onOutcome, if not
// nil, with the outcome of every prediction.
func Prepare(ctx context.Context, opts *options.Options, onOutcome func(state.Outcome)) (*Scheduler, error) {
	shared, cc, s, err := setUp(ctx, opts, onOutcome)
	if err != nil {
		return nil, fmt.Errorf("set up scheduler: %w", err)
	}
	shared.Extend(ctx, s)
	return &Scheduler{Shared: shared, config: cc, sched: s, source: shared.Inspection()}, nil
}

// Run schedules until the context ends.
func (s *Scheduler) Run(ctx context.Context) error {
	configz.Delete("componentconfig") // a process-wide name; an earlier scheduler leaves it registered
	return app.Run(ctx, s.config, s.sched)
}

// Parts returns the kube-scheduler and its configuration, for callers that run it step by step instead of by Run.
func (s *Scheduler) Parts() (*schedconfig.CompletedConfig, *scheduler.Scheduler) {
	return s.config, s.sched
}
