package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
)

// This file carries out a change of kubelets' configuration.

const kubeletApplyLong = `Carry out a change that "kubectl tenon kubelet plan -o json" has planned, node by node.

The command cordons a node, evicts its pods as PodDisruptionBudgets allow, and starts one privileged pod on it.
That pod stops the kubelet, puts the state files aside that the new configuration refuses, writes a drop-in file
(or the kubelet's own file where it has no --config-dir), and starts the kubelet. When kubelet and agent report
the new configuration, the pod is removed, and the node takes pods again.

If anything fails, the node gets its old configuration back, takes pods again, and no other node is begun. If the
command is interrupted, apply the same plan again: it goes on where it was. A node whose change is not confirmed
in time restores its old configuration by itself.

The exit code is 0 after the change, 1 if you do not agree to it, and 2 after an error.`

const kubeletApplyExample = `  kubectl tenon kubelet apply plan.json --dry-run
  kubectl tenon kubelet apply plan.json --max-unavailable 2 --yes
  kubectl tenon kubelet apply plan.json --stop-command "rc-service kubelet stop" --start-command "rc-service kubelet start"`

// KubeletApplyOptions select how a plan is applied; the flags of the command explain them.
type KubeletApplyOptions struct {
	MaxUnavailable            int
	Force, LoseEmptyDir       bool
	EvictWithin, VerifyWithin time.Duration
	// Image is the image of the pods that change nodes. Stop and Start are the shell commands on the node that stop
	// and start the kubelet. ConfigDir, Config and Root are paths of the kubelet; the pods read empty ones from the
	// kubelet's command line.
	Image, Stop, Start      string
	ConfigDir, Config, Root string
}

// KubeletDefaults returns the options that apply if no flags are given.
func KubeletDefaults() KubeletApplyOptions {
	return KubeletApplyOptions{MaxUnavailable: 1, EvictWithin: 10 * time.Minute, VerifyWithin: 2 * time.Minute,
		Image: "busybox:1.37", Stop: "systemctl stop kubelet",
		Start: "systemctl reset-failed kubelet; systemctl start kubelet"}
}

// KubeletApplier applies plans to a cluster.
type KubeletApplier interface {
	// Pending returns the nodes of the plan that still have to change, in order. For a plan that cannot be applied,
	// it returns an error with the reason.
	Pending(ctx context.Context, p document.KubeletPlan) ([]document.KubeletPlanNode, error)
	// Run changes the nodes. It calls say before each step, and after the last step of a node with the result.
	Run(ctx context.Context, nodes []document.KubeletPlanNode, say func(document.KubeletStep)) error
}

// ApplyKubelets returns an applier of plans for the cluster of a kubeconfig. It changes nothing yet.
type ApplyKubelets func(k Kubeconfig, o KubeletApplyOptions) (KubeletApplier, error)

func (a *app) kubeletApplyCommand() *cobra.Command {
	var (
		o           KubeletApplyOptions
		yes, dryRun bool
	)
	c := &cobra.Command{
		Use:     "apply PLAN",
		Short:   "Carry out a planned change of kubelets' configuration",
		Long:    kubeletApplyLong,
		Example: kubeletApplyExample,
		Args:    oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			if a.setup.ApplyKubelets == nil {
				return errors.New("this program changes no kubelets")
			}
			applier, err := a.setup.ApplyKubelets(a.kube, o)
			if err != nil {
				return err
			}
			return applyKubelets(c, applier, args[0], o, yes, dryRun)
		},
	}
	s, d := c.Flags(), KubeletDefaults()
	s.BoolVar(&yes, "yes", false, "Do not ask.")
	s.BoolVar(&dryRun, "dry-run", false, "Say what would be done, and do nothing.")
	s.IntVar(&o.MaxUnavailable, "max-unavailable", d.MaxUnavailable, "Nodes that change at the same time.")
	s.BoolVar(&o.Force, "force", false, "Evict pods without a controller, too. They end for good.")
	s.BoolVar(&o.LoseEmptyDir, "delete-emptydir-data", false, "Evict pods with emptyDir volumes, too.")
	s.DurationVar(&o.EvictWithin, "evict-timeout", d.EvictWithin,
		"How long PodDisruptionBudgets and ending pods may take.")
	s.DurationVar(&o.VerifyWithin, "verify-timeout", d.VerifyWithin,
		"How long kubelet and agent may take to report the configuration. A node restores the old one a minute later.")
	s.StringVar(&o.Image, "image", d.Image, "Image of the pods that change nodes: sh, awk, base64, nsenter.")
	s.StringVar(&o.Stop, "stop-command", d.Stop, "Shell command on the node that stops the kubelet.")
	s.StringVar(&o.Start, "start-command", d.Start,
		"Shell command on the node that starts it.")
	s.StringVar(&o.ConfigDir, "config-dir", "", "Directory of drop-in files; empty: that of the kubelet's command line.")
	s.StringVar(&o.Config, "config", "", "The kubelet's file; empty: that of the kubelet's command line.")
	s.StringVar(&o.Root, "root-dir", "", "The kubelet's directory; empty: that of the kubelet's command line.")
	return c
}

// maxPlan is the largest size of a plan file, in bytes.
const maxPlan = 64 << 20

// readPlan reads the file that a command has written with -o json into a plan.
func readPlan(file, command string, into any) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open the plan: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxPlan+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the plan: %w", err)
	case len(data) > maxPlan:
		return fmt.Errorf("%s has more than %d bytes: it is no plan", file, maxPlan)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s is no plan: write one with \"kubectl tenon %s -o json\": %w", file, command, err)
	}
	return nil
}

// applyKubelets announces the changes of a plan, asks the user unless yes is set, and makes the changes unless dryRun
// is set. After an answer other than yes it returns errDeclined.
func applyKubelets(c *cobra.Command, by KubeletApplier, file string, o KubeletApplyOptions, yes, dryRun bool) error {
	if o.MaxUnavailable < 1 || o.EvictWithin <= 0 || o.VerifyWithin <= 0 {
		return errors.New("--max-unavailable, --evict-timeout and --verify-timeout must be positive")
	}
	var p document.KubeletPlan
	if err := readPlan(file, "kubelet plan", &p); err != nil {
		return err
	}
	nodes, err := by.Pending(c.Context(), p)
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	if len(nodes) == 0 {
		_, err := fmt.Fprintln(out, "All nodes of the plan have this configuration already.")
		return err
	}
	if err := announce(out, p, nodes, o); err != nil || dryRun {
		return err
	}
	if !yes && !agreed(c) {
		fmt.Fprintln(c.ErrOrStderr(), "Nothing was changed: answer y, or give --yes.")
		return errDeclined
	}
	if err := by.Run(c.Context(), nodes, func(s document.KubeletStep) { fmt.Fprintln(out, stepText(s)) }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d %s changed.\n", len(nodes), choose(len(nodes), "node", "nodes"))
	return err
}

func stepText(s document.KubeletStep) string {
	if s.Why != "" {
		return fmt.Sprintf("%s: %s, because %s", s.Node, s.Step, s.Why)
	}
	return s.Node + ": " + s.Step
}

// announce writes what applying the plan will do to the nodes.
func announce(w io.Writer, p document.KubeletPlan, nodes []document.KubeletPlanNode, o KubeletApplyOptions) error {
	b := bufio.NewWriter(w)
	only := p
	only.Nodes = nodes
	writeDiffs(b, only)
	for i, n := range nodes {
		files := "no state file is removed"
		if len(n.StateFiles) > 0 {
			files = "removed: " + strings.Join(n.StateFiles, joint)
		}
		writeWrapped(b, "", fmt.Sprintf("%d. Node %s: %s evicted, %s.", i+1, n.Name,
			choose(n.Evicted, "1 pod is", podsText(n.Evicted)+" are"), files))
	}
	for _, m := range p.Moves {
		if m.To == "" {
			writeWrapped(b, "", fmt.Sprintf("Pod %s/%s will have no place: %s.", m.Namespace, m.Name, m.Why))
		}
	}
	writeWrapped(b, "", fmt.Sprintf("At most %d at a time. On each node one privileged pod of image %s runs for "+
		"the time of the change, with your rights. It stops the kubelet by \"%s\" and starts it by \"%s\".",
		o.MaxUnavailable, o.Image, o.Stop, o.Start))
	return b.Flush()
}
