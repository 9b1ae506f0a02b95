// Command peer is kube-scheduler with scheduler-plugins' NodeResourceTopologyMatch and no other plugin of theirs. Its
// first argument selects the mode: kube-scheduler runs one, and driven lets a benchmark drive it step by step.
//
// It is a separate module, because that plugin is made for another minor version of Kubernetes. Invariant: the plugin
// runs if the configuration enables it. The command refuses configurations that kube-scheduler refuses.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the flag --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of clients, as kube-scheduler has them
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // so that the plugin's arguments are understood
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"

	"github.com/tenon-numa/tenon/test/bench/cycle"
)

func main() {
	plugin := app.WithPlugin(noderesourcetopology.Name, noderesourcetopology.New)
	what := ""
	if len(os.Args) > 1 {
		what = os.Args[1]
		os.Args = os.Args[1:]
	}
	switch what {
	case "kube-scheduler":
		os.Exit(cli.Run(app.NewSchedulerCommand(plugin)))
	case "driven":
		cycle.Main(func(ctx context.Context, opts *options.Options) (*schedconfig.CompletedConfig, *scheduler.Scheduler,
			error) {
			return app.Setup(ctx, opts, plugin)
		})
	default:
		fmt.Fprintf(os.Stderr, "peer: %q: want kube-scheduler or driven\n", what)
		os.Exit(2)
	}
}
