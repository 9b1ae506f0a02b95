package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/releases"
	"github.com/tenon-numa/tenon/lab/volcano"
)

// upFlags are the flags of "up".
type upFlags struct {
	nodes, machines, dir string
	release              string
	controllers, gangs   bool
	volcano              volcanoFlags
}

// config returns the configuration of the cluster that the flags describe. It builds the programs for other releases
// of Kubernetes, if nodes name some.
func (f upFlags) config(ctx context.Context, progress io.Writer) (lab.Config, error) {
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
		if cfg.Programs, err = releases.Programs(ctx, cfg.Progress, lab.Releases(nodes)...); err != nil {
			return cfg, err
		}
	}
	if f.machines != "" {
		cfg.Machines = os.DirFS(f.machines)
	}
	if f.gangs {
		cfg.APIs = lab.GangAPIs
		return cfg, lab.EnableGangs()
	}
	return cfg, nil
}

func up(parts Parts) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and keep it until it is interrupted",
		Example: `  tenon-lab up                                one node of each machine
  tenon-lab up --nodes 2xxeon-2s,gpu-8        three nodes
  tenon-lab up --machines . --nodes mine      mine.txt and mine.yaml in this directory
  tenon-lab up --release 1.35                 control plane, scheduler and kubelets of another release
  tenon-lab up --nodes gpu-8@1.34,xeon-2s     a node whose kubelet is older
  tenon-lab up --gangs                        with PodGroups, whose pods start together or not at all
  tenon-lab up --volcano                      with Volcano, whose scheduler has the plugin tenon`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.release != "" && f.release != releases.Own() {
				return f.runRelease(cmd)
			}
			return run(cmd, parts, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.nodes, "nodes", "",
		`machines of the nodes, a comma list of MACHINE or COUNTxMACHINE, and @RELEASE (default: one of each)`)
	flags.StringVar(&f.release, "release", "",
		"release of Kubernetes, such as 1.35; another one than "+releases.Own()+" is built from source (in a checkout)")
	flags.StringVar(&f.machines, "machines", "", "directory with machines of your own, NAME.txt and NAME.yaml each")
	flags.StringVar(&f.dir, "dir", "", "where the cluster's directory is made; keep it short (default: memory)")
	flags.BoolVar(&f.controllers, "controllers", true,
		"run a kube-controller-manager: Deployments, StatefulSets, DaemonSets and Jobs get pods")
	flags.BoolVar(&f.gangs, "gangs", false,
		"turn on the feature gates for gangs (PodGroups of Kubernetes 1.37), in API server, scheduler and controllers")
	f.volcano.add(flags)
	flags.StringVar(&f.volcano.plugin, "volcano", "",
		"run Volcano too, with this plugin for NUMA nodes: tenon (without a value), numa-aware, or none for no scheduler")
	flags.Lookup("volcano").NoOptDefVal = volcano.Tenon
	completeUp(cmd)
	return cmd
}

// run starts a cluster and its parts, and stops them when the user interrupts or a part ends by itself.
func run(cmd *cobra.Command, parts Parts, f upFlags) (err error) {
	ctx, out, progress := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	cfg, err := f.config(ctx, progress)
	if err != nil {
		return err
	}
	withVolcano, err := f.volcano.prepare(ctx, &cfg)
	if err != nil {
		return err
	}
	c, err := lab.Start(ctx, cfg)
	if err != nil {
		return err
	}
	var started []Running
	defer func() {
		fmt.Fprintln(progress, "stopping")
		for _, r := range started {
			err = errors.Join(err, r.Stop())
		}
		err = errors.Join(err, c.Stop())
	}()
	if !f.controllers {
		parts.Controllers = nil
	}
	for _, part := range []struct {
		name  string
		start Start
	}{{"scheduler", parts.Scheduler}, {"controllers", parts.Controllers}, {"Volcano", withVolcano}} {
		if part.start == nil {
			continue
		}
		r, err := part.start(c)
		if err != nil {
			return fmt.Errorf("start %s: %w", part.name, err)
		}
		started = append(started, r)
		cfg.Progress(part.name + " started")
	}
	printUsage(out, c, parts, started)
	f.volcano.printUsage(out)
	return waitForEnd(ctx, c, started)
}

// runRelease builds this program for the release of --release, and runs "up" in it with all other flags.
func (f upFlags) runRelease(cmd *cobra.Command) error {
	ctx, progress := cmd.Context(), cmd.ErrOrStderr()
	programs, err := releases.Programs(ctx, func(line string) { fmt.Fprintln(progress, line) }, f.release)
	if err != nil {
		return err
	}
	args := []string{"up"}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Name != "release" {
			args = append(args, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	other := exec.CommandContext(ctx, programs[f.release], args...)
	other.Stdin, other.Stdout, other.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), progress
	other.Cancel = func() error { return other.Process.Signal(os.Interrupt) }
	if err := other.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run the lab of Kubernetes %s: %w", f.release, err)
	}
	return nil
}

// waitForEnd returns nil when the user interrupts, or the error of a part of the cluster that ended by itself.
func waitForEnd(ctx context.Context, c *lab.Cluster, started []Running) error {
	ended := make(chan error, len(started))
	for _, r := range started {
		go func() {
			<-r.Done()
			ended <- r.Err()
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-c.Done():
		return c.Err()
	case err := <-ended:
		return err
	}
}

// printUsage prints how to use the cluster, with a sample pod that fits every machine of the catalogue.
func printUsage(out io.Writer, c *lab.Cluster, parts Parts, started []Running) {
	bind := ""
	if parts.Scheduler == nil {
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
kubectl get nodelayouts
`, c.KubeconfigPath, bind)
	if parts.Controllers == nil {
		fmt.Fprint(out, "\nThere is no controller manager: create Pods, not Deployments.\n")
	}
	addresses(out, started)
	fmt.Fprintf(out, "\nLogs are in %s. Ctrl-C stops the cluster and removes everything.\n", c.Dir)
}

// addresses lists the URLs that the parts serve, and the commands that read the last of them.
func addresses(out io.Writer, started []Running) {
	last := ""
	for _, r := range started {
		for _, a := range r.Addresses() {
			if last == "" {
				fmt.Fprint(out, "\nServed to whoever has the token of the kubeconfig:\n\n")
			}
			fmt.Fprintf(out, "%-11s %s\n", a.What, a.URL)
			last = a.URL
		}
	}
	if last != "" {
		fmt.Fprintf(out, "\n"+ReadServed, last)
	}
}

// ReadServed has the shell commands that read a URL of the lab; %s stands for the URL.
const ReadServed = `TOKEN=$(kubectl config view --raw -o jsonpath='{.users[0].user.token}')
curl -sk -H "Authorization: Bearer $TOKEN" '%s'
`
