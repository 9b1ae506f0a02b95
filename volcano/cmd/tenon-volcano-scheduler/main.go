// Command tenon-volcano-scheduler is Volcano's scheduler with all its actions and plugins, and the plugin tenon. It has
// the flags and the configuration of Volcano's own program, so it can replace that program in a Deployment. It refuses
// whatever Volcano's program refuses.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	_ "go.uber.org/automaxprocs"
	"k8s.io/apiserver/pkg/util/feature"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/config/options"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app"
	scheduler "volcano.sh/volcano/cmd/scheduler/app/options"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/util"
	"volcano.sh/volcano/pkg/version"

	"github.com/tenon-numa/tenon/volcano/plugin"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run reads the command line and runs the scheduler until it fails: a lost lease ends the process, as in Volcano.
func run() error {
	klog.InitFlags(nil)
	flags, o := pflag.CommandLine, scheduler.NewServerOption()
	o.AddFlags(flags)
	feature.DefaultMutableFeatureGate.AddFlag(flags)
	util.LeaderElectionDefault(&o.LeaderElection)
	o.LeaderElection.ResourceName = util.GenerateComponentName(o.SchedulerNames)
	options.BindLeaderElectionFlags(&o.LeaderElection, flags)
	o.RegisterOptions()
	flush := flags.Duration("log-flush-frequency", 5*time.Second, "Maximum time between two flushes of the log")
	cliflag.InitFlags()
	if o.PrintVersion {
		version.PrintVersionAndExit()
	}
	if err := o.CheckOptionOrDie(); err != nil {
		return err
	}
	if o.CaCertFile != "" && o.CertFile != "" && o.KeyFile != "" {
		if err := o.ParseCAFiles(nil); err != nil {
			return fmt.Errorf("read certificates: %w", err)
		}
	}
	klog.StartFlushDaemon(*flush)
	defer klog.Flush()
	framework.RegisterPluginBuilder(plugin.Name, plugin.New(context.Background(), nil).Build)
	return app.Run(o)
}
