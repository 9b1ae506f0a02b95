// Package command is the command line of tenon-lab: a Kubernetes cluster of described machines with
// real kubelets, for trying Tenon on one computer.
//
// Commands read arguments and write to the streams of their cobra command; what they start, they stop
// before they return. Invariant: an error leaves no cluster behind. The package refuses to choose a
// scheduler: the main program hands one in.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/internal/version"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/demo"
	"github.com/tenon-numa/tenon/lab/machines"
)

// Scheduler starts a scheduler for a cluster.
type Scheduler func(c *lab.Cluster) (Running, error)

// Running is a scheduler at work.
type Running interface {
	Done() <-chan struct{} // closed when it ended
	Err() error            // why it ended by itself
	Stop() error
}

// Show is how results are shown to people. Fields may be nil: what needs them is then left out.
type Show struct {
	// Draw draws one node within a width, in colour on a terminal or where color is set.
	Draw func(w io.Writer, n *ledger.Node, width int, color bool) error
	// Explain returns what "kubectl tenon explain pod" prints of a pod.
	Explain func(ctx context.Context, kubeconfig, pod string) (string, error)
	// Record writes pages as an asciicast and as an SVG.
	Record func(pages []demo.Page, cast, svg io.Writer) error
}

// New returns the command of tenon-lab. Without a scheduler, "up" starts a cluster in which pods are
// bound by hand.
func New(s Scheduler, show Show) *cobra.Command {
	root := &cobra.Command{
		Use:           "tenon-lab",
		Short:         "A Kubernetes cluster of strange machines on one computer",
		Version:       version.Text(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("tenon-lab {{.Version}}\n")
	// Kubernetes' packages register a flag of this name for all commands, which prints another version.
	root.PersistentFlags().Bool("version", false, "Print the version and quit.")
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(up(s), tryOut(show), list())
	for _, c := range root.Commands() {
		c.Version = root.Version // --version of a command prints the program's
	}
	return root
}

// list prints the catalogue.
func list() *cobra.Command {
	return &cobra.Command{
		Use:   "machines",
		Short: "List the machines that a cluster can be made of",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printMachines(cmd.OutOrStdout())
		},
	}
}

func printMachines(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tCPUS\tNUMAS\tTOPOLOGY POLICY\tSCOPE\tCPU\tMEMORY\tDEVICES")
	for _, name := range machines.List() {
		m, err := machines.Load(name)
		if err != nil {
			return err
		}
		devices := 0
		for _, r := range m.Topo.Resources() {
			devices += len(r.Devices)
		}
		k := m.Kubelet
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%d\n", m.Name, m.Topo.CPUs().Len(), len(m.Topo.NUMAs()),
			k.TopologyManagerPolicy, orDefault(k.TopologyManagerScope, "container"), k.CPUManagerPolicy, k.MemoryManagerPolicy,
			devices)
	}
	return w.Flush()
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// upFlags are the flags of "up".
type upFlags struct {
	nodes, machines, dir string
}

func (f upFlags) config(progress io.Writer) (lab.Config, error) {
	began := time.Now()
	cfg := lab.Config{Dir: f.dir, Progress: func(line string) {
		fmt.Fprintf(progress, "%5.1fs  %s\n", time.Since(began).Seconds(), line)
	}}
	if f.nodes != "" {
		nodes, err := lab.ParseNodes(f.nodes)
		if err != nil {
			return cfg, err
		}
		cfg.Nodes = nodes
	}
	if f.machines != "" {
		cfg.Machines = os.DirFS(f.machines)
	}
	return cfg, nil
}

func up(s Scheduler) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and keep it until it is interrupted",
		Example: `  tenon-lab up                                one node of each machine
  tenon-lab up --nodes 2xxeon-2s,gpu-8        three nodes
  tenon-lab up --machines . --nodes mine      mine.txt and mine.yaml in this directory`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, s, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.nodes, "nodes", "",
		`machines of the nodes, a comma list of MACHINE or COUNTxMACHINE (default: one of each)`)
	flags.StringVar(&f.machines, "machines", "", "directory with machines of your own, NAME.txt and NAME.yaml each")
	flags.StringVar(&f.dir, "dir", "", "where the cluster's directory is made; keep it short (default: memory)")
	return cmd
}

func run(cmd *cobra.Command, start Scheduler, f upFlags) (err error) {
	ctx, out, progress := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	cfg, err := f.config(progress)
	if err != nil {
		return err
	}
	c, err := lab.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		fmt.Fprintln(progress, "stopping")
		err = errors.Join(err, c.Stop())
	}()
	if start == nil {
		hello(out, c, false)
		return watch(ctx, c, nil)
	}
	r, err := start(c)
	if err != nil {
		return fmt.Errorf("start scheduler: %w", err)
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	cfg.Progress("scheduler ready")
	hello(out, c, true)
	return watch(ctx, c, r)
}

// watch returns when the user interrupts, or when a part of the cluster ends by itself.
func watch(ctx context.Context, c *lab.Cluster, r Running) error {
	var scheduler <-chan struct{}
	if r != nil {
		scheduler = r.Done()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-c.Done():
		return c.Err()
	case <-scheduler:
		return r.Err()
	}
}

// hello says how to talk to the cluster. The sample fits every machine of the catalogue.
func hello(out io.Writer, c *lab.Cluster, scheduled bool) {
	bind := ""
	if !scheduled {
		bind = fmt.Sprintf("\n  nodeName: %s  # there is no scheduler", c.Nodes[0].Name)
	}
	fmt.Fprintf(out, `
The cluster is up. In another terminal:

export KUBECONFIG=%s
kubectl get nodes
kubectl apply -f - <<'EOF'
apiVersion: v1
kind: Pod
metadata: {name: sample}
spec:%s
  containers:
  - name: app
    image: example.com/app:v1  # containers are not run, but what they hold is real
    resources:
      limits: {cpu: "4", memory: 2Gi}
EOF
kubectl get nodelayouts -o yaml

Logs are in %s. Ctrl-C stops the cluster and removes everything.
`, c.KubeconfigPath, bind, c.Dir)
}
