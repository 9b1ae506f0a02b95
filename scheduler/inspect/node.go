package inspect

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// nodes is the overview of the ledger, ordered by name.
type nodes []document.Node

func (s Source) nodes() nodes {
	snap := s.Book.Snapshot()
	out := nodes{}
	for _, name := range s.names(snap) {
		out = append(out, s.reported(document.SummaryOf(name, snap.Node(name))))
	}
	return out
}

// reported returns the document with the age of the node's report, and the reason why its object was rejected.
func (s Source) reported(n document.Node) document.Node {
	n.Problem, n.AgeSeconds = s.problem(n.Name), s.age(n.Name)
	return n
}

// node is a document of a node, with the rules in the form that is rendered.
type node struct {
	document.Node
	rules   place.Rules
	quality state.Quality
}

// node returns the document of a node, or an error if the ledger does not have it and no object of it was rejected.
func (s Source) node(name string) (*node, error) {
	n := s.Book.Snapshot().Node(name)
	out := &node{Node: s.reported(document.NodeOf(name, n))}
	if n == nil {
		if out.Problem == "" {
			return nil, fmt.Errorf("nothing is known of node %s: it has no layout", quoted(name))
		}
		return out, nil
	}
	out.rules, out.quality = n.Rules, n.Quality
	since := s.Decisions.Reserved()
	for i, e := range n.Entries {
		if at, ok := since[e.Pod.UID]; ok && e.Source == state.Predicted {
			age := s.Now().Sub(at).Seconds()
			out.Holdings[i].InFlightSeconds = &age
		}
	}
	return out, nil
}

func (ns nodes) text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tQUALITY\tNUMA NODES\tFREE CPUS\tOBSERVED\tPREDICTED\tAGE\tPROBLEM")
	for _, n := range ns {
		printf(t, "%s\t%s\t%d\t%d/%d\t%d\t%d\t%s\t%s\n", n.Name, n.Quality, n.Summary.NUMAs, n.Summary.FreeCPUs,
			n.Summary.CPUs, n.Summary.Observed, n.Summary.Predicted, seconds(n.AgeSeconds), dash(n.Problem))
	}
	_ = t.Flush()
}

func seconds(age *float64) string {
	if age == nil {
		return "-"
	}
	return fmt.Sprintf("%.0fs", *age)
}

func (n *node) text(w io.Writer) {
	printf(w, "node %s: data %s", n.Name, n.Quality)
	if n.AgeSeconds != nil {
		printf(w, ", last report %s ago", seconds(n.AgeSeconds))
	}
	fmt.Fprintln(w)
	if n.Problem != "" {
		printf(w, "problem: %s\n", n.Problem)
	}
	if n.Machine == nil {
		return
	}
	n.hardware(w)
	n.state(w)
	for _, h := range n.Holdings {
		who := h.Namespace + "/" + h.Name
		if h.UID == "" {
			who = "unknown pods"
		}
		age := ""
		if h.InFlightSeconds != nil {
			age = ", reserved " + seconds(h.InFlightSeconds) + " ago"
		}
		printf(w, "%s (%s%s)\n", who, h.Source, age)
		hold(w, " ", h.Containers)
	}
}

// hardware writes the rules, the free CPUs and memory of each NUMA node, and the free devices of each resource.
func (n *node) hardware(w io.Writer) {
	printf(w, "rules: %s\n", strings.Join(document.RuleItems(n.rules, n.quality), ", "))
	if n.Rules.ReservedCPUs != "" {
		printf(w, "reserved: cpus %s\n", n.Rules.ReservedCPUs)
	}
	for _, numa := range n.NUMAs {
		printf(w, "NUMA node %d: cpus %s, free %s\n", numa.ID, dash(string(numa.CPUs)), dash(string(numa.FreeCPUs)))
		for _, k := range numa.Memory {
			printf(w, "  %s, %s free\n", place.Quantity(k.Kind, k.Allocatable), place.Quantity(k.Kind, k.Free))
		}
	}
	free := map[string]int{}
	for _, d := range n.FreeDevices {
		free[d.Resource] = len(d.IDs)
	}
	for _, r := range n.Machine.Devices {
		all := 0
		for _, g := range r.Groups {
			all += len(g.IDs)
		}
		printf(w, "%s: %d free of %d\n", r.Resource, free[r.Resource], all)
	}
}

// state writes why the node takes fewer pods, or none.
func (n *node) state(w io.Writer) {
	if n.Unsettled {
		fmt.Fprintln(
			w,
			"unsettled: what assumed pods got is not known; no pod that holds anything fits before the node reports",
		)
	}
	if n.Crowded {
		fmt.Fprintln(
			w,
			"crowded: what pods keep from init containers counts wherever it may be; takes pods of one container, one by one",
		)
	}
	if n.Silent {
		fmt.Fprintln(w, "silent: a report is overdue")
	}
	for _, why := range n.Refused {
		printf(w, "refused a pod that should have fitted (%s): pods like it wait until the node reports\n", why)
	}
	if n.States > 1 {
		printf(w, "one of %d possible states of the node:\n", n.States)
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
