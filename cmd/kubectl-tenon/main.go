// Command kubectl-tenon is the kubectl plugin "kubectl tenon". It only wires the commands of face/cli to
// the cluster that a kubeconfig names, and refuses nothing by itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/tenon-numa/tenon/api/document"
	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/node/sysfs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, setup(version()))
	stop()
	os.Exit(code)
}

func setup(version string) cli.Setup {
	return cli.Setup{Version: version, Connect: connect, Machine: readMachine, Stages: stages()}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// readMachine takes a machine's text form and the snapshot of a machine.
func readMachine(data []byte) (*topo.Machine, []string, error) {
	found, err := sysfs.Read(data)
	if err != nil {
		return nil, nil, err
	}
	var warnings []string
	for _, w := range found.Warnings {
		warnings = append(warnings, w.String())
	}
	return found.Machine, warnings, nil
}

func connect(k cli.Kubeconfig) (cli.Cluster, string, error) {
	cfg, namespace, err := k.Load()
	if err != nil {
		return nil, "", err
	}
	r, err := kube.NewReader(cfg)
	if err != nil {
		return nil, "", err
	}
	return cluster{r}, namespace, nil
}

// cluster gives the reader the form that the commands ask for.
type cluster struct{ reader *kube.Reader }

func (c cluster) Nodes(ctx context.Context) ([]*ledger.Node, []document.Problem, error) {
	nodes, problems, err := c.reader.Nodes(ctx)
	return nodes, nodeProblems(problems), err
}

// Notes are of the nodes that Nodes returned last.
func (c cluster) Notes() []document.Problem { return nodeProblems(c.reader.Notes()) }

// NodeNames are names to complete.
func (c cluster) NodeNames(ctx context.Context) ([]string, error) { return c.reader.NodeNames(ctx) }

// PodNames are names to complete, of one namespace.
func (c cluster) PodNames(ctx context.Context, namespace string) ([]string, error) {
	return c.reader.PodNames(ctx, namespace)
}

func (c cluster) Pod(ctx context.Context, namespace, name string) (cli.PodView, error) {
	pod, err := c.reader.Pod(ctx, namespace, name)
	if err != nil {
		return cli.PodView{}, err
	}
	core, err := podapi.ToPlace(pod)
	if err != nil {
		return cli.PodView{}, err
	}
	demand, err := podapi.Demand(pod)
	if err != nil {
		return cli.PodView{}, err
	}
	lacks, err := c.reader.Lacks(ctx, pod)
	if err != nil {
		return cli.PodView{}, err
	}
	return cli.PodView{Lacks: lacks, ID: kube.ID(pod), Pod: core, Demand: demand, Node: pod.Spec.NodeName,
		Phase: string(pod.Status.Phase), Reason: pod.Status.Reason, Message: pod.Status.Message}, nil
}
