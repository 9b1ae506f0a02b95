package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tenon-numa/tenon/api/document"
)

// This file shows the traffic between pods that share CPUs, and the NUMA nodes on which agents put these pods.

const affinityLong = `Show what pods that share CPUs send each other on a node, and on which NUMA node its agent put them.

Without a node there is a line for each node that has such pods. With one, its pods follow, each with
why it is where it is, and the pairs that exchange the most. How pods opt in:
` + affinityPage

const affinityPage = document.Docs + "howto/affinity.md"

const affinityExample = `  kubectl tenon affinity
  kubectl tenon affinity node-a
  kubectl tenon affinity -o json`

// Affinity reads what agents have published about the named node, or about all nodes if node is "".
type Affinity func(ctx context.Context, k Kubeconfig, node string) (document.Affinity, error)

// mostPairs is the number of pairs of pods that are shown for one node.
const mostPairs = 20

func (a *app) affinityCommand() *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:     "affinity [NODE]",
		Short:   "Show what pods that share CPUs send each other, and on which NUMA nodes they are",
		Long:    affinityLong,
		Example: affinityExample,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if a.setup.Affinity == nil {
				return errors.New("this program cannot read a cluster")
			}
			node := ""
			if len(args) > 0 {
				node = nodeName(args[0])
			}
			d, err := a.setup.Affinity(c.Context(), a.kube, node)
			if err != nil {
				return err
			}
			if done, err := out.write(c.OutOrStdout(), d, nil); done {
				return err
			}
			return writeAffinity(c.OutOrStdout(), d, node != "", out.format == "wide", time.Now())
		},
	}
	out.bind(c, "json", "yaml", "wide")
	c.ValidArgsFunction = firstArgOnly(a.nodeNames)
	return c
}

// writeAffinity writes a table of nodes. If the user has named a node (one is set), a table of its pods follows.
func writeAffinity(w io.Writer, d document.Affinity, one, wide bool, now time.Time) error {
	if len(d.Nodes) == 0 {
		_, err := fmt.Fprintln(w, "No agent puts pods that share CPUs on NUMA nodes. How to begin: "+affinityPage)
		return err
	}
	t := table{heads: []string{"NODE", "PODS", "PLACED", "LOCAL", "REMOTE", "MEASURED", "LAST MOVE"}}
	for _, n := range d.Nodes {
		t.rows = append(t.rows, []string{sanitized(n.Node), fmt.Sprint(n.Summary.Pods), fmt.Sprint(n.Summary.Placed),
			rate(n.Summary.LocalBytesPerSecond), rate(n.Summary.RemoteBytesPerSecond), ago(now, n.Measured), lastMove(n, now)})
	}
	if err := t.write(w, wide); err != nil || !one {
		return err
	}
	for _, n := range d.Nodes {
		if err := writeTalkers(w, n, wide); err != nil {
			return err
		}
	}
	return nil
}

func lastMove(n document.NodeAffinity, now time.Time) string {
	if n.LastMove == nil {
		return "none"
	}
	m := n.LastMove
	return fmt.Sprintf("%s: %s, remote %s → %s", ago(now, m.Time.Time), plural(int(m.Pods), "pod"),
		rate(m.RemoteBefore), rate(m.RemoteAfter))
}

// writeTalkers writes the pods of a node, and the first mostPairs pairs of pods by traffic.
func writeTalkers(w io.Writer, n document.NodeAffinity, wide bool) error {
	pods := table{heads: []string{"POD", "NUMA", "TRAFFIC", "REMOTE", "GROUP", "WHY"}, wide: []string{"GROUP"}}
	for _, p := range n.Pods {
		numa := "all"
		if p.NUMA != nil {
			numa = strconv.FormatInt(*p.NUMA, 10)
		}
		pods.rows = append(pods.rows, []string{sanitized(p.Namespace + "/" + p.Name), numa, rate(p.BytesPerSecond),
			rate(p.RemoteBytesPerSecond), sanitized(p.Group), sanitized(p.Why)})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := pods.write(w, wide); err != nil || len(n.Traffic) == 0 {
		return err
	}
	pairs := table{heads: []string{"POD", "TRAFFIC", "PATH", "WITH"}}
	for _, x := range n.Traffic[:min(len(n.Traffic), mostPairs)] {
		path := "local"
		if x.Remote {
			path = "remote"
		}
		pairs.rows = append(pairs.rows, []string{sanitized(x.A), rate(x.BytesPerSecond), path, sanitized(x.B)})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := pairs.write(w, wide); err != nil {
		return err
	}
	if more := len(n.Traffic) - mostPairs; more > 0 {
		_, err := fmt.Fprintf(w, "and %d more pairs; -o json has all\n", more)
		return err
	}
	return nil
}

// rate writes bytes per second.
func rate(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB/s", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%d MB/s", n/1e6)
	case n > 0:
		return fmt.Sprintf("%d kB/s", (n+999)/1e3)
	}
	return "0"
}

// ago writes how long ago something was, as kubectl does.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return duration.HumanDuration(now.Sub(then)) + " ago"
}
