package cli

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file finds what kubelets do not align because of their settings, and the settings that would align it.

// unaligned returns what the kubelet of a node does not align for a pod because of its settings. apart is set if the
// pod is on several NUMA nodes; otherwise settings that administrators choose on purpose do not count. The result is
// empty for an estimated node, which does not report its settings.
func unaligned(n *state.Node, p *place.Pod, apart bool) []place.Unaligned {
	if n.Quality == state.Estimated || p.Plain() {
		return nil
	}
	return slices.DeleteFunc(n.Rules.Unaligned(n.Machine), func(u place.Unaligned) bool {
		switch u.Code {
		case place.SharedCPUs, place.MemoryAnywhere:
			return !p.Exclusive()
		case place.ContainersApart:
			return !apart || len(p.Containers) < 2
		}
		return u.Choice && !apart
	})
}

// holdsNothing reports whether the node's kubelet assigns nothing to the pod because of its settings.
func holdsNothing(n *state.Node, p *place.Pod) bool {
	v := place.Place(place.NewUsage(n.Machine, n.Rules), p)
	return n.Quality == state.Exact && v.Fits() && len(v.Holdings) == 0
}

// writeUnaligned writes what the kubelets of nodes do not align for a pod; apart is as for unaligned. Nodes with
// equal results share a paragraph, which names at most limit nodes.
func writeUnaligned(b *bufio.Writer, on []*state.Node, p *place.Pod, apart bool, limit int) {
	groups := map[string][]string{}
	for _, n := range on {
		var texts []string
		for _, u := range unaligned(n, p, apart) {
			texts = append(texts, u.Text())
		}
		if len(texts) > 0 {
			key := strings.Join(texts, "\n")
			groups[key] = append(groups[key], n.Name)
		}
	}
	if len(groups) == 0 {
		return
	}
	fmt.Fprintln(b, "\nNot aligned for it, by settings of kubelets:")
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(x, y string) int {
		return strings.Compare(groups[x][0], groups[y][0])
	}) {
		writeWrapped(b, "  ", firstOf(groups[key], limit, " (--all shows them)"))
		for line := range strings.SplitSeq(key, "\n") {
			writeWrapped(b, "    ", line)
		}
	}
}
