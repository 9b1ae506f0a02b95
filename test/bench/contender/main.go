// Command contender is a scheduler that a benchmark drives step by step. It is set up like tenon-scheduler, or, with
// -plain, like kube-scheduler.
//
// Invariant: with -plain no part of Tenon runs. The command refuses configurations that kube-scheduler refuses.
package main

import (
	"context"
	"flag"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/tenon-numa/tenon/scheduler/server"
	"github.com/tenon-numa/tenon/test/bench/cycle"
)

func main() {
	plain := flag.Bool("plain", false, "kube-scheduler as it is")
	cycle.Main(func(ctx context.Context, opts *options.Options) (*schedconfig.CompletedConfig, *scheduler.Scheduler,
		error) {
		if *plain {
			return app.Setup(ctx, opts)
		}
		s, err := server.Prepare(ctx, opts, nil)
		if err != nil {
			return nil, nil, err
		}
		cc, kube := s.Parts()
		return cc, kube, nil
	})
}
