// Command tenon-lab runs a Kubernetes cluster of described machines with real kubelets on one computer. It only
// connects lab/command to a scheduler, to pictures and to the commands of the kubectl plugin.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/face/draw"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/cast"
	"github.com/tenon-numa/tenon/lab/command"
	"github.com/tenon-numa/tenon/lab/controllers"
	"github.com/tenon-numa/tenon/lab/demo"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

func main() {
	lab.MaybeChild()
	controllers.MaybeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	parts := command.Parts{Scheduler: withTenon, Controllers: withControllers}
	err := command.New(parts, command.Show{Draw: picture, Explain: explain, Record: record}).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tenon-lab:", err)
		os.Exit(cli.ExitError)
	}
}

// withTenon makes Tenon the cluster's only scheduler. It also schedules pods that name tenon-scheduler.
func withTenon(c *lab.Cluster) (command.Running, error) {
	r, err := scheduler.StartServed(c.Dir, c.SchedulerKubeconfig, scheduler.Tenon+scheduler.Second)
	if err != nil {
		return nil, err
	}
	return served{r, []command.Address{{What: "metrics", URL: r.Metrics}, {What: "inspection", URL: r.Inspection}}}, nil
}

// withControllers runs the controllers of Deployments and other workloads.
func withControllers(c *lab.Cluster) (command.Running, error) {
	var more []string
	if lab.GangsEnabled() {
		more = controllers.ForGroups()
	}
	r, err := controllers.Start(c.Dir, c.KubeconfigPath, more...)
	if err != nil {
		return nil, err
	}
	return served{part: r}, nil
}

// part is a running part of a cluster.
type part interface {
	Done() <-chan struct{}
	Err() error
	Stop() error
}

// served is a part with the addresses that it serves.
type served struct {
	part
	addresses []command.Address
}

func (s served) Addresses() []command.Address { return s.addresses }

// picture draws a node as the command "kubectl tenon map" does.
func picture(w io.Writer, n *state.Node, width int, color bool) error {
	return draw.Map(w, n, draw.Options{Color: color || draw.ColorWanted(os.Stdout), Width: width})
}

// explain returns the output of the command "kubectl tenon explain pod".
func explain(ctx context.Context, kubeconfig, pod string) (string, error) {
	var out, problems bytes.Buffer
	args := []string{"explain", "pod", pod, "--kubeconfig", kubeconfig}
	if cli.Run(ctx, args, &out, &problems, commands.Setup("")) != 0 {
		return "", errors.New("explain pod " + pod + ": " + strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// record writes the pages of the demonstration as recordings.
func record(pages []demo.Page, asciicast, svg io.Writer) error {
	var out []cast.Page
	for _, p := range pages {
		out = append(out, cast.Page(p))
	}
	if err := cast.Write(asciicast, "tenon-lab demo", out); err != nil {
		return err
	}
	return cast.Draw(svg, "tenon-lab demo", out)
}
