// Command scheduler is somebody's own kube-scheduler that has Tenon beside its other plugins.
//
// It is all that a main program needs for it: kube-scheduler's command with one option. The configuration enables
// the plugin in a profile:
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
