// Command tenon-descheduler is the descheduler with all its plugins, and the plugin TenonMakeRoom. It has the flags and
// the policy of the descheduler's own program, so it can replace that program in a Deployment, Job or CronJob. It
// refuses whatever the descheduler's program refuses.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"sigs.k8s.io/descheduler/cmd/descheduler/app"

	"github.com/tenon-numa/tenon/descheduler/plugin"
)

func main() {
	cmd := app.NewDeschedulerCommand(os.Stdout)
	cmd.AddCommand(app.NewVersionCommand())
	plugin.AddTo(cmd)
	os.Exit(cli.Run(cmd))
}
