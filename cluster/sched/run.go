package sched

import (
	"context"
	"fmt"

	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/core/ledger"
)

// Scheduler is a kube-scheduler with the plugin, ready to run.
type Scheduler struct {
	Shared *Shared
	config *schedconfig.CompletedConfig
	sched  *scheduler.Scheduler
	source inspect.Source
}

// Prepare sets a kube-scheduler up as its own command does, with the plugin and its book. onOutcome, if not nil,
// receives how every prediction came out.
func Prepare(ctx context.Context, opts *options.Options, onOutcome func(ledger.Outcome)) (*Scheduler, error) {
	s, cc, sched, err := setUp(ctx, opts, onOutcome)
	if err != nil {
		return nil, fmt.Errorf("set up scheduler: %w", err)
	}
	s.rest(sched)
	if len(s.plugins) == 0 {
		// Nobody would read the book, and following every pod of a cluster costs memory and work.
		loggerOf(ctx).Info("No profile enables the plugin: layouts and pods are not followed")
		s.metrics.measure(s.Inspection(), s.Feed.Paced)
	} else {
		go s.sleepers.run(ctx, s.try)
	}
	return &Scheduler{Shared: s, config: cc, sched: sched, source: s.Inspection()}, nil
}

// Run schedules until the context ends.
func (s *Scheduler) Run(ctx context.Context) error {
	configz.Delete("componentconfig") // a process-wide name; a scheduler that ran before leaves it
	return app.Run(ctx, s.config, s.sched)
}

// Parts returns the kube-scheduler and its configuration, for who drives it by hand instead of by Run.
func (s *Scheduler) Parts() (*schedconfig.CompletedConfig, *scheduler.Scheduler) {
	return s.config, s.sched
}
