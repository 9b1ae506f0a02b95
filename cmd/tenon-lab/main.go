// Command tenon-lab runs a Kubernetes cluster of described machines with real kubelets on one
// computer. It only wires lab/command to a scheduler and to pictures; it refuses nothing by itself.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/face/draw"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/command"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

func main() {
	lab.MaybeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.New(withTenon, picture).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tenon-lab:", err)
		os.Exit(1)
	}
}

// withTenon makes Tenon the cluster's only scheduler, so that every pod shows what it does.
func withTenon(c *lab.Cluster) (command.Running, error) {
	return scheduler.Start(c.Dir, c.SchedulerKubeconfig, scheduler.Tenon, nil)
}

func picture(w io.Writer, n *ledger.Node) error {
	return draw.Map(w, n, draw.Options{Color: draw.ColorWanted(os.Stdout)})
}
