package command

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/remote"
	"github.com/tenon-numa/tenon/lab/conformance/report"
)

// remoteFlags are the flags of a run on a running cluster.
type remoteFlags struct {
	kubeconfig, selector, namespace, numa, image string
	tolerate                                     []string
	shared                                       bool
}

func (r *remoteFlags) add(s *pflag.FlagSet) {
	s.StringVar(&r.kubeconfig, "kubeconfig", "",
		"kubeconfig file of a running cluster; grades its scheduler on its own nodes, up to level live")
	s.StringVar(&r.selector, "node-selector", "", "with --kubeconfig: label selector of the nodes that may be used")
	s.StringSliceVar(&r.tolerate, "tolerate", nil,
		"with --kubeconfig: taint that nodes may have, as KEY[=VALUE][:EFFECT]; may be given several times")
	s.StringVar(&r.namespace, "namespace", remote.DefaultNamespace,
		"with --kubeconfig: namespace of the pods, which is created if it is missing")
	s.StringVar(&r.numa, "numa", "",
		"with --kubeconfig: NUMA nodes of each node, such as 2x32 for two of 32 CPUs (default: NodeResourceTopology)")
	s.BoolVar(&r.shared, "shared-nodes", false,
		"with --kubeconfig: use nodes on which other pods may have exclusive CPUs, too")
	s.StringVar(&r.image, "image", remote.DefaultImage, "with --kubeconfig: image of a container that waits")
}

// checkRemote returns an error for flags that exclude --kubeconfig.
func (f *flags) checkRemote() error {
	switch {
	case f.scheduler != "" || f.schedulerCommand != "" || f.short || f.cases != "" || f.page != "" || f.compare:
		return errors.New("--kubeconfig excludes --scheduler, --scheduler-command, --short, --cases, --page and --compare")
	case f.level != string(conformance.Safe) && f.level != string(conformance.Live):
		return fmt.Errorf("--level %q: a running cluster is graded up to level live", f.level)
	case f.remote.shared && f.remote.numa != "":
		return errors.New("--shared-nodes excludes --numa: only a NodeResourceTopology has what other pods hold")
	case f.schedulerName == "" && !f.list:
		return errors.New("--scheduler-name is missing")
	}
	return f.checkOutput()
}

// runRemote grades the scheduler of a running cluster.
func (f *flags) runRemote(cmd *cobra.Command) error {
	if err := f.checkRemote(); err != nil {
		return err
	}
	cases, err := remote.Cases()
	if err == nil && f.only != "" {
		cases, err = only(f.only, cases, func(c *remote.Case) string { return c.Name })
	}
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.list {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "CASE\tLEVEL\tNODES\tSOURCE")
		for _, c := range cases {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.Name, c.Level, c.Nodes, c.Source)
		}
		return w.Flush()
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.remote.kubeconfig)
	if err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}
	began := time.Now()
	say := func(line string) { fmt.Fprintf(cmd.ErrOrStderr(), "%6.1fs  %s\n", time.Since(began).Seconds(), line) }
	found, err := remote.Run(cmd.Context(), cases, remote.Options{Config: config, SchedulerName: f.schedulerName,
		Selector: f.remote.selector, Tolerate: f.remote.tolerate, Namespace: f.remote.namespace, NUMA: f.remote.numa,
		Shared: f.remote.shared, Image: f.remote.image, Settle: f.settle, Pause: f.pause, Progress: say,
		Done: func(r *conformance.Result) { say(line(r)) }})
	if err != nil {
		return err
	}
	r := report.New(found.Results)
	r.Scheduler, r.Kubernetes, r.Date = f.schedulerName, found.Kubernetes, began.Format(time.DateOnly)
	r.Settle, r.Pause, r.Part = f.settle.Seconds(), f.pause.Seconds(), f.only != ""
	r.Nodes, r.NotJudged = found.Nodes, found.NotJudged
	return f.end(r, out)
}

// checkOutput returns an error for an unknown output.
func (f *flags) checkOutput() error {
	if !slices.Contains([]string{"table", "json", "badge"}, f.output) {
		return fmt.Errorf("--output %q is none of table, json, badge", f.output)
	}
	return nil
}
