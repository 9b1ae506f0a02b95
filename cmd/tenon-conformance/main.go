// Command tenon-conformance grades a scheduler about NUMA nodes. The managers of real kubelets judge what it does with
// pods. The command only connects lab/conformance/command to the process.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/conformance/command"
	"github.com/tenon-numa/tenon/lab/controllers"
)

func main() {
	lab.MaybeChild()
	controllers.MaybeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.New().ExecuteContext(ctx)
	stop()
	if err != nil && !errors.Is(err, command.ErrMissed) {
		fmt.Fprintln(os.Stderr, "tenon-conformance:", err)
	}
	os.Exit(command.ExitCode(err))
}
