// Package command is the command line of tenon-lab: a Kubernetes cluster of described machines with real kubelets, for
// trying Tenon on one computer.
//
// Commands read arguments and write to the streams of their cobra command, and stop all that they started before they
// return. Invariant: an error leaves no cluster behind. The package does not choose a scheduler: the main program
// passes one in.
package command

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/internal/version"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/demo"
	"github.com/tenon-numa/tenon/lab/machines"
)

// Start starts a part of a cluster in addition to the parts that [lab.Start] starts.
type Start func(c *lab.Cluster) (Running, error)

// Parts are what "up" starts in addition to etcd, API server, kubelets and agents. Fields may be nil.
type Parts struct {
	Scheduler   Start
	Controllers Start // a kube-controller-manager
}

// Running is a running part.
type Running interface {
	Done() <-chan struct{} // closed when it ended
	Err() error            // why it ended by itself; nil while it runs and after Stop
	Stop() error
	// Addresses returns the URLs that the part serves, with descriptions.
	Addresses() []Address
}

// Address is a URL with a description.
type Address struct{ What, URL string }

// Show renders results for people. If Draw is nil, drawings are omitted. If Record is nil, a request for a recording
// is an error. Explain is needed only for the act about a pod that waits.
type Show struct {
	// Draw draws one node, at most width columns wide. It uses colour if color is set, and otherwise only on a
	// terminal.
	Draw func(w io.Writer, n *state.Node, width int, color bool) error
	// Explain returns the output of "kubectl tenon explain pod" for a pod.
	Explain func(ctx context.Context, kubeconfig, pod string) (string, error)
	// Record writes pages as an asciicast and as an SVG.
	Record func(pages []demo.Page, cast, svg io.Writer) error
}

// New returns the command of tenon-lab. If parts has no scheduler, "up" starts a cluster in which the user binds pods
// by hand.
func New(parts Parts, show Show) *cobra.Command {
	root := &cobra.Command{
		Use:           "tenon-lab",
		Short:         "Runs a Kubernetes cluster of described machines on this computer",
		Version:       version.Text(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("tenon-lab {{.Version}}\n")
	// Kubernetes' packages register a flag of this name for all commands, which prints another version.
	root.PersistentFlags().Bool("version", false, "Print the version and quit.")
	root.AddCommand(up(parts), tryOut(show), list())
	for _, c := range root.Commands() {
		c.Version = root.Version // --version of a command prints the program's version
	}
	return root
}

// list returns the command that prints the machines of the catalogue.
func list() *cobra.Command {
	return &cobra.Command{
		Use:     "machines",
		Aliases: []string{"list"},
		Short:   "List the machines that a cluster can be made of",
		Args:    cobra.NoArgs,
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
