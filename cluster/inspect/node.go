package inspect

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// Nodes is the ledger at a glance, in order of name.
type Nodes []Summary

// Summary is one node at a glance.
type Summary struct {
	Name string `json:"name"`
	// Quality of what is known: exact (who holds which CPU), coarse (how much of each numa is held) or
	// none.
	Quality string `json:"quality"`
	// Problem says why what the node published was refused.
	Problem string `json:"problem,omitempty"`
	// AgeSeconds is how long ago the node's report last changed.
	AgeSeconds *float64 `json:"ageSeconds,omitempty"`
	NUMAs      int      `json:"numas"`
	CPUs       int      `json:"cpus"`
	FreeCPUs   int      `json:"freeCPUs"`
	// Observed counts pods whose holdings the node reported, Predicted those on their way to it.
	Observed  int `json:"observed"`
	Predicted int `json:"predicted"`
	// States counts the states in which the node may be: more than one where others bind pods to it, or where
	// pods keep something from their init containers that a coarse node does not show.
	States int `json:"states"`
	// Unsettled: there may be more states, and no pod that holds anything fits before a report. Silent: a
	// report is overdue. Refused says why pods were refused that should have fitted; their shapes are kept
	// away until a report. Crowded: see ledger.Node.
	Unsettled bool     `json:"unsettled,omitempty"`
	Crowded   bool     `json:"crowded,omitempty"`
	Silent    bool     `json:"silent,omitempty"`
	Refused   []string `json:"refused,omitempty"`
}

// Node is all that the ledger knows of a node.
type Node struct {
	Summary
	Machine  *Machine `json:"machine,omitempty"`
	Rules    *Rules   `json:"rules,omitempty"`
	Holdings []Holder `json:"holdings,omitempty"`
}

// Machine is the hardware, with what is free of it.
type Machine struct {
	NUMAs   []NUMA     `json:"numas"`
	Devices []Resource `json:"devices,omitempty"`
}

// NUMA is one numa.
type NUMA struct {
	ID        int    `json:"id"`
	CPUs      string `json:"cpus"`
	FreeCPUs  string `json:"freeCPUs"`
	Memory    []Kind `json:"memory,omitempty"`
	Distances []int  `json:"distances,omitempty"`
}

// Kind is one kind of memory on a numa, in bytes.
type Kind struct {
	Kind        string `json:"kind"`
	Allocatable int64  `json:"allocatable"`
	Free        int64  `json:"free"`
}

// Resource counts the devices of one resource.
type Resource struct {
	Name    string `json:"name"`
	Devices int    `json:"devices"`
	Free    int    `json:"free"`
}

// Rules are the kubelet's, by its own names where they are not the defaults.
type Rules struct {
	TopologyManagerPolicy string   `json:"topologyManagerPolicy"`
	TopologyManagerScope  string   `json:"topologyManagerScope"`
	CPUManagerPolicy      string   `json:"cpuManagerPolicy"`
	MemoryManagerPolicy   string   `json:"memoryManagerPolicy"`
	ReservedCPUs          string   `json:"reservedCPUs,omitempty"`
	Options               []string `json:"options,omitempty"`
}

// Holder is a pod that holds something, in the order in which the node admitted it.
type Holder struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	UID        string      `json:"uid"`
	Source     string      `json:"source"`
	Containers []Container `json:"containers"`
	// InFlightSeconds is how long ago what it will hold was reserved, where it is predicted and this
	// scheduler remembers it.
	InFlightSeconds *float64 `json:"inFlightSeconds,omitempty"`
}

func (s Source) nodes() Nodes {
	snap := s.Book.Snapshot()
	out := Nodes{}
	for _, name := range s.names(snap) {
		out = append(out, s.summary(name, snap.Node(name)))
	}
	return out
}

func (s Source) summary(name string, n *ledger.Node) Summary {
	out := Summary{Name: name, Quality: quality(n), Problem: s.problem(name), AgeSeconds: s.age(name)}
	if n == nil {
		return out
	}
	out.NUMAs, out.CPUs, out.FreeCPUs = len(n.Machine.NUMAs()), n.Machine.CPUs().Len(), n.Usage.FreeCPUs().Len()
	out.States, out.Unsettled, out.Crowded, out.Silent = 1+len(n.Others), n.Unsettled, n.Crowded, n.Silent
	for _, why := range n.Refused {
		out.Refused = append(out.Refused, string(why))
	}
	slices.Sort(out.Refused)
	for _, e := range n.Entries {
		if e.Source == ledger.Predicted {
			out.Predicted++
		} else {
			out.Observed++
		}
	}
	return out
}

func (s Source) node(name string) (*Node, error) {
	n := s.Book.Snapshot().Node(name)
	out := &Node{Summary: s.summary(name, n)}
	if n == nil {
		if out.Problem == "" {
			return nil, fmt.Errorf("nothing is known of node %s: it has no layout", quoted(name))
		}
		return out, nil
	}
	out.Machine, out.Rules = machine(n), rules(n.Rules)
	since := s.Decisions.Reserved()
	for _, e := range n.Entries {
		h := Holder{Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID, Source: source(e.Source),
			Containers: containers(n.Machine, e.Holdings)}
		if at, ok := since[e.Pod.UID]; ok && e.Source == ledger.Predicted {
			age := s.Now().Sub(at).Seconds()
			h.InFlightSeconds = &age
		}
		out.Holdings = append(out.Holdings, h)
	}
	return out, nil
}

func source(s ledger.Source) string {
	switch s {
	case ledger.Observed:
		return "observed"
	case ledger.Counted:
		return "counted"
	}
	return "predicted"
}

func machine(n *ledger.Node) *Machine {
	out := &Machine{}
	free := n.Usage.FreeCPUs()
	for i, numa := range n.Machine.NUMAs() {
		v := NUMA{ID: int(numa.ID), CPUs: numa.CPUs.String(), FreeCPUs: numa.CPUs.And(free).String(), Distances: numa.Distances}
		for _, kind := range n.Machine.Kinds() {
			if numa.Capacity(kind) > 0 {
				v.Memory = append(v.Memory, Kind{kind, n.Usage.Allocatable(i, kind), n.Usage.FreeMemory(i, kind)})
			}
		}
		out.NUMAs = append(out.NUMAs, v)
	}
	for _, r := range n.Machine.Resources() {
		out.Devices = append(out.Devices, Resource{r.Name, len(r.Devices), len(n.Usage.FreeDevices(r.Name))})
	}
	return out
}

func rules(r place.Rules) *Rules {
	out := &Rules{TopologyManagerPolicy: r.Topology.Policy.String(), TopologyManagerScope: r.Topology.Scope.String(),
		CPUManagerPolicy: "none", MemoryManagerPolicy: "None", ReservedCPUs: r.CPU.Reserved.String()}
	if r.CPU.Static {
		out.CPUManagerPolicy = "static"
	}
	if r.Memory.Static {
		out.MemoryManagerPolicy = "Static"
	}
	for _, o := range []struct {
		name string
		on   bool
	}{
		{"prefer-closest-numa-nodes", r.Topology.PreferClosest},
		{fmt.Sprintf("max-allowable-numa-nodes=%d", r.Topology.MaxNUMAs), r.Topology.MaxNUMAs > 0},
		{"full-pcpus-only", r.CPU.FullPCPUsOnly},
		{"distribute-cpus-across-numa", r.CPU.DistributeAcrossNUMA},
		{"align-by-socket", r.CPU.AlignBySocket},
		{"distribute-cpus-across-cores", r.CPU.DistributeAcrossCores},
		{"strict-cpu-reservation", r.CPU.StrictReservation},
		{"prefer-align-cpus-by-uncorecache", r.CPU.PreferAlignByUncoreCaches},
	} {
		if o.on {
			out.Options = append(out.Options, o.name)
		}
	}
	return out
}

func (ns Nodes) text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tQUALITY\tNUMAS\tFREE CPUS\tOBSERVED\tPREDICTED\tAGE\tPROBLEM")
	for _, n := range ns {
		printf(t, "%s\t%s\t%d\t%d/%d\t%d\t%d\t%s\t%s\n", n.Name, n.Quality, n.NUMAs, n.FreeCPUs, n.CPUs,
			n.Observed, n.Predicted, seconds(n.AgeSeconds), dash(n.Problem))
	}
	_ = t.Flush()
}

func seconds(age *float64) string {
	if age == nil {
		return "-"
	}
	return fmt.Sprintf("%.0fs", *age)
}

func (n *Node) text(w io.Writer) {
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
	r := n.Rules
	printf(w, "rules: topology %s (%s), cpu %s, memory %s\n", r.TopologyManagerPolicy, r.TopologyManagerScope,
		r.CPUManagerPolicy, r.MemoryManagerPolicy)
	if r.ReservedCPUs != "" {
		printf(w, "reserved: cpus %s\n", r.ReservedCPUs)
	}
	for _, o := range r.Options {
		printf(w, "option: %s\n", o)
	}
	for _, numa := range n.Machine.NUMAs {
		printf(w, "numa %d: cpus %s, free %s\n", numa.ID, dash(numa.CPUs), dash(numa.FreeCPUs))
		for _, k := range numa.Memory {
			printf(w, "  %s, %s free\n", place.Quantity(k.Kind, k.Allocatable), place.Quantity(k.Kind, k.Free))
		}
	}
	for _, d := range n.Machine.Devices {
		printf(w, "%s: %d free of %d\n", d.Name, d.Free, d.Devices)
	}
	if n.Unsettled {
		fmt.Fprintln(w, "unsettled: what pods on their way got is not known; takes nobody who holds anything until it reports")
	}
	if n.Crowded {
		fmt.Fprintln(w, "crowded: what pods keep from init containers counts wherever it may be; takes pods of one container, one by one")
	}
	if n.Silent {
		fmt.Fprintln(w, "silent: a report is overdue")
	}
	for _, why := range n.Refused {
		printf(w, "refused a pod that should have fitted (%s): pods like it are kept away until it reports\n", why)
	}
	if n.States > 1 {
		printf(w, "one of %d states in which the node may be:\n", n.States)
	}
	for _, h := range n.Holdings {
		who := h.Namespace + "/" + h.Name
		if h.UID == "" {
			who = "of unknown pods"
		}
		age := ""
		if h.InFlightSeconds != nil {
			age = ", reserved " + seconds(h.InFlightSeconds) + " ago"
		}
		printf(w, "%s (%s%s)\n", who, h.Source, age)
		hold(w, " ", h.Containers)
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
