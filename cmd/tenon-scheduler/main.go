// Command tenon-scheduler is kube-scheduler with Tenon's plugin. It only connects the two. It accepts whatever
// kube-scheduler accepts.
package main

import (
	"os"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	tenon "github.com/tenon-numa/tenon/scheduler/server"
)

func main() {
	os.Exit(cli.Run(tenon.NewCommand(server.SetupSignalContext())))
}
