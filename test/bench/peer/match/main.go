// Command match is kube-scheduler with scheduler-plugins' NodeResourceTopologyMatch and no other plugin of theirs, for
// tenon-conformance. It has the flags and the configuration of kube-scheduler.
//
// Invariant: the plugin runs if the configuration enables it. The command refuses configurations that kube-scheduler
// refuses.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // so that the plugin's arguments are understood
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
)

func main() {
	plugin := app.WithPlugin(noderesourcetopology.Name, noderesourcetopology.New)
	os.Exit(cli.Run(app.NewSchedulerCommand(plugin)))
}
