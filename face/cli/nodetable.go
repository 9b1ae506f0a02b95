package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/face/draw"
)

// writeNodes writes a table with one line per node: its kubelet's policy and scope, and what is free. The column
// KNOWN, with the source of a node's data, appears if some nodes are estimated (coarse), and with "-o wide". A "+"
// behind the number of pods means that unknown pods hold something, too.
func writeNodes(w io.Writer, nodes []*state.Node, claims *document.Claims, wide bool) error {
	t := table{
		heads: []string{"NODE", "KNOWN", "POLICY", "SCOPE", "NUMA", "CPUS FREE", "MEMORY FREE", "PODS", "DEVICES FREE"},
		wide:  []string{"KNOWN", "MEMORY FREE"},
	}
	if slices.ContainsFunc(nodes, func(n *state.Node) bool { return n.Quality == state.Estimated }) {
		t.wide = t.wide[1:]
	}
	for _, n := range nodes {
		t.rows = append(t.rows, nodeRow(n, claims.Node(n.Name), wide))
	}
	return t.write(w, wide)
}

// nodeRow returns the cells of one node, in the order of the headings in writeNodes.
func nodeRow(n *state.Node, claims *document.NodeClaims, wide bool) []string {
	name := n.Name
	if len(n.Inexact) > 0 {
		name += inexactMark
	}
	cpus := fmt.Sprintf("%d/%d", n.Usage.FreeCPUs().Len(), n.Machine.CPUs().Len())
	switch {
	case n.Rules.CPU.Static:
	case n.Quality == state.Estimated:
		cpus = "unknown"
	default:
		cpus = fmt.Sprintf("%d shared", n.Machine.CPUs().Len())
	}
	return []string{name, n.Quality.String(), n.Rules.Topology.Policy.String(), n.Rules.Topology.Scope.String(),
		fmt.Sprint(len(n.Machine.NUMAs())), cpus, freeMemory(n), podCount(n), freeDevices(n, claims, wide)}
}

// freeMemory returns the memory (without hugepages) that Guaranteed pods may still get, and the total, as text.
func freeMemory(n *state.Node) string {
	if !n.Rules.Memory.Static {
		return "not pinned"
	}
	var free, all int64
	for i, x := range n.Machine.NUMAs() {
		free, all = free+n.Usage.FreeMemory(i, topo.Memory), all+x.Capacity(topo.Memory)
	}
	return roundBytes(free) + "/" + roundBytes(all)
}

// roundBytes returns an amount of memory without the resource name.
func roundBytes(n int64) string {
	s := place.Quantity(topo.Memory, n)
	return s[:len(s)-len(" "+topo.Memory)]
}

// podCount returns the number of pods that hold something, as text, with "+" if unknown pods hold something too, and
// for how many more room is kept.
func podCount(n *state.Node) string {
	unknown := func(e state.Entry) bool { return e.Source == state.Counted && e.Pod.UID == "" }
	out := fmt.Sprint(len(n.Entries))
	if slices.ContainsFunc(n.Entries, unknown) {
		out = fmt.Sprintf("%d+", len(n.Entries)-1)
	}
	if kept := len(n.Promised); kept > 0 {
		out += fmt.Sprintf(" (%d kept)", kept)
	}
	return out
}

// freeDevices returns the number of free devices of each resource and each driver, as text. If wide is set, the text
// has all of them. Otherwise it has as many as fit into the narrowest last column of a table.
func freeDevices(n *state.Node, claims *document.NodeClaims, wide bool) string {
	const room = leastLast - len(", +64 more")
	out := ""
	var all []string
	for _, r := range n.Machine.Resources() {
		all = append(all, fmt.Sprintf("%s %d/%d", r.Name[strings.LastIndexByte(r.Name, '/')+1:],
			len(n.Usage.FreeDevices(r.Name)), len(r.Devices)))
	}
	all = append(all, claimItems(claims)...)
	for i, item := range all {
		bound := room
		if i == len(all)-1 { // no number of further resources follows
			bound = leastLast
		}
		switch {
		case out == "" && !wide:
			out = draw.Clip(item, room)
		case out == "":
			out = item
		case !wide && len(out)+len(", ")+len(item) > bound:
			return fmt.Sprintf("%s, +%d more", out, len(all)-i)
		default:
			out += ", " + item
		}
	}
	if out == "" {
		return "-"
	}
	return out
}
