// Package cli is the kubectl plugin "kubectl tenon". It explains where a pod fits and why, simulates where new pods
// would fit, compares schedulers on simulated machines, and draws machines.
//
// Commands are functions of a context, arguments and two writers. They read a cluster through [Cluster], which the
// caller connects. Invariant: a command changes no cluster, except for "kubelet apply", "defrag apply" and for what the
// user changes on the page of "console"; its output on stdout is complete, or the exit code is not 0. The package
// refuses names that Kubernetes does not allow, and machine files beyond 32 MiB.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/face/draw"
)

// Cluster is what the commands read from a cluster.
type Cluster interface {
	// Nodes returns the nodes with known data, and a problem for each other node.
	Nodes(ctx context.Context) ([]*state.Node, []document.Problem, error)
	// Pod returns one pod. If it does not exist, the error is the API server's NotFound.
	Pod(ctx context.Context, namespace, name string) (view.Pod, error)
	// Pods returns the pods of a namespace, or of all namespaces if namespace is "". It does not set view.Pod.Around,
	// and leaves out pods that cannot be parsed.
	Pods(ctx context.Context, namespace string) ([]view.Pod, error)
}

// Connect returns the cluster that the kubeconfig flags select, and the namespace that they select.
type Connect func(k Kubeconfig) (c Cluster, namespace string, err error)

// Setup is what a main program passes to [Run].
type Setup struct {
	Version string
	Connect Connect
	// Machine returns the machine in a machine file, and warnings about hardware anomalies. If it is nil, machine
	// files must be in the text form of package topo.
	Machine func(data []byte) (m *topo.Machine, warnings []string, err error)
	// Catalogue returns a machine by its name, as the content of a machine file, and the KubeletConfiguration of its
	// nodes. If it is nil, there is no catalogue. Catalogued are the names of its machines.
	Catalogue  func(name string) (machine, config []byte, ok bool)
	Catalogued []string
	// Stages make the nodes on which simulate and check place pods.
	Stages Stages
	// Bundle writes everything that the commands read from a cluster into one archive. Here and below, nil means that
	// the program cannot do it.
	Bundle Bundler
	// Affinity reads what agents measured between pods.
	Affinity Affinity
	// Doctor examines a cluster.
	Doctor Doctor
	// KubeletPlan computes the effects of a change of kubelets' configuration.
	KubeletPlan KubeletPlanner
	// ApplyKubelets carries such a change out.
	ApplyKubelets ApplyKubelets
	// Move carries out plans that move pods.
	Move Move
	// Console serves the console until ctx ends.
	Console func(ctx context.Context, k Kubeconfig, o ConsoleOptions) error
}

// Run runs one command line (without the program's name) and returns the exit code: [ExitYes], [ExitNo], [ExitError]
// or [ExitPart]. It writes errors to stderr in kubectl's words.
//
// A pod that fits nowhere is an answer and no error: simulate, check and "kubelet plan" then return ExitNo. The
// commands that show something, such as explain and map, return ExitYes whatever they show.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, s Setup) int {
	a := newApp(s)
	root := a.root()
	if args == nil {
		args = []string{}
	}
	root.SetArgs(args)
	out, errs := &printed{out: stdout}, &printed{out: stderr}
	root.SetOut(out)
	root.SetErr(errs)
	refuseUnknown(root, args)
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		out.look, errs.look = lookOf(stdout, a.color), lookOf(stderr, a.color)
		return checkColor(a.color)
	}
	err := root.ExecuteContext(ctx)
	flush(out)
	writePartial(errs, a.sources...)
	code, written := exitCode(err)
	if !written {
		fmt.Fprintln(errs, sanitized(errorText(err)))
	}
	flush(errs)
	return code
}

// sanitized returns a text without runes that could move a terminal's cursor. Line breaks stay, and a tab becomes two
// blanks. Errors quote texts from outside, which may have such runes.
func sanitized(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = draw.Printable(strings.ReplaceAll(line, "\t", "  "))
	}
	return strings.Join(lines, "\n")
}

// errorText words an error as kubectl does: it separates the API server's errors from errors of this program.
func errorText(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		text := fmt.Sprintf("Error from server (%s): %v", apierrors.ReasonForError(err), err)
		if apierrors.IsForbidden(err) {
			text += "\nRemedy: an administrator can give you the right; the roles are in " + document.Docs + "howto/rights.md."
		}
		return text
	}
	return "error: " + err.Error()
}

// app has what the commands of one run share.
type app struct {
	setup Setup
	kube  Kubeconfig
	color string // --color
	// sources are the clusters and stages that the command has read; see [Partial].
	sources []any
}

// newApp returns an app. Reading the stage of a cluster adds the stage to its sources.
func newApp(s Setup) *app {
	a := &app{setup: s}
	if read := s.Stages.Cluster; read != nil {
		a.setup.Stages.Cluster = func(ctx context.Context, k Kubeconfig) (Stage, []document.Problem, string, error) {
			stage, problems, namespace, err := read(ctx, k)
			a.sources = append(a.sources, stage)
			return stage, problems, namespace, err
		}
	}
	return a
}

func (a *app) root() *cobra.Command {
	s := a.setup
	root := &cobra.Command{
		Use:   "kubectl-tenon",
		Short: "See on which NUMA nodes of your cluster pods fit, and why",
		Long: `See on which NUMA nodes of your cluster pods fit, and why.

The commands compute what the kubelet of every node will do with a pod: which CPUs, memory and
devices it will assign, or which error it will give. They only read, with three exceptions: kubelet apply
changes kubelets and defrag apply moves pods, after they have asked you, and the page of console changes
what you confirm on it.

To complete names of pods and nodes behind "kubectl tenon", link the plugin to a second name beside it:

  ln -s kubectl-tenon kubectl_complete-tenon`,
		Example:       "  kubectl tenon explain pod ml/trainer-0\n  kubectl tenon map node-a",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tenon"},
		Version:       s.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("kubectl-tenon {{.Version}}\n")
	// Kubernetes' packages register a flag "version" for all commands of a program. That flag is no boolean switch.
	root.Flags().Bool("version", false, "print the version of this program")
	a.kube.bind(root.PersistentFlags())
	complete(root, "context", choicesOf(a.kube.contexts))
	root.PersistentFlags().StringVar(&a.color, "color", "auto", colorHelp)
	complete(root, "color", choices(colors...))
	complete(root, "namespace", a.namespaceNames)
	complete(root, "cluster", choicesOf(a.kube.clusters))
	complete(root, "user", choicesOf(a.kube.users))
	root.AddCommand(a.explainCommand(), a.mapCommand(), a.podsCommand(), a.topCommand(), a.simulateCommand(),
		a.defragCommand(), a.checkCommand(), a.affinityCommand(), a.doctorCommand(), a.bundleCommand(), a.kubeletCommand(),
		a.compareCommand(), a.consoleCommand(), a.versionCommand())
	return root
}

// versionDocument is what version writes with "-o json" and "-o yaml".
type versionDocument struct {
	Kind    string `json:"kind"` // "Version"
	Version string `json:"version"`
	// Built has what the version was built of, such as "commit 4f63f781c2aa" and "Kubernetes 1.37.2".
	Built []string `json:"built"`
}

func (a *app) versionCommand() *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  kubectl tenon version\n  kubectl tenon version -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			version, built, _ := strings.Cut(strings.TrimSuffix(a.setup.Version, ")"), " (")
			d := versionDocument{Kind: "Version", Version: version, Built: []string{}}
			if built != "" {
				d.Built = strings.Split(built, ", ")
			}
			if done, err := out.write(c.OutOrStdout(), d, nil); done {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), "kubectl-tenon "+a.setup.Version)
			return err
		},
	}
	out.bind(c, "json", "yaml")
	return c
}

func (a *app) connect() (Cluster, string, error) {
	c, namespace, err := a.setup.Connect(a.kube)
	if err != nil {
		return nil, "", fmt.Errorf("connect to the cluster: %w", err)
	}
	a.sources = append(a.sources, c)
	return c, namespace, nil
}
