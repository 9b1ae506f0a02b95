// Command scheduler is an example of a kube-scheduler of your own that has Tenon beside its other plugins.
//
// The main program is complete: it is kube-scheduler's command with one option. The configuration enables the plugin
// in a profile:
//
//	profiles:
//	- schedulerName: default-scheduler
//	  plugins: {multiPoint: {enabled: [{name: Tenon, weight: 10}]}}
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/tenon-numa/tenon/scheduler/plugin"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New))))
}
