package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file groups the nodes that refuse a pod, so that the answer on thousands of nodes stays short.

// nodeGroup are nodes that refuse a pod for the same reasons. The nodes that can be freed come first: those where the
// fewest pods have to end.
type nodeGroup struct {
	nodes   []verdictOn
	reasons []place.Reason // of all the nodes; where amounts differ, the highest
	differ  bool           // amounts differ
}

// groupsOf groups nodes by their reasons. Groups for which it helps to wait come first. Among these, the order follows
// the fewest pods that have to end on one of the nodes, and then the number of nodes.
func groupsOf(refused []verdictOn) []nodeGroup {
	groups := map[string]*nodeGroup{}
	for _, v := range refused {
		key := refusal(v) + whatif.Alike("", v.judged.Reasons)
		g := groups[key]
		if g == nil {
			groups[key] = &nodeGroup{nodes: []verdictOn{v}, reasons: slices.Clone(v.judged.Reasons)}
			continue
		}
		g.nodes = append(g.nodes, v)
		g.differ = g.differ || !slices.EqualFunc(g.reasons, v.judged.Reasons,
			func(a, b place.Reason) bool { return a.Have == b.Have })
		whatif.Merge(g.reasons, v.judged.Reasons)
	}
	var out []nodeGroup
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		slices.SortStableFunc(g.nodes, func(a, b verdictOn) int { return cmp.Compare(a.ends(), b.ends()) })
		out = append(out, *g)
	}
	slices.SortStableFunc(out, func(a, b nodeGroup) int {
		return cmp.Or(b.when().Compare(a.when()), cmp.Compare(a.nodes[0].ends(), b.nodes[0].ends()),
			len(b.nodes)-len(a.nodes))
	})
	return out
}

// manyEnds is more pods than any way has.
const manyEnds = 1 << 20

// ends returns how many pods have to end to make room on the node, or manyEnds if that is not known.
func (v verdictOn) ends() int {
	if v.way == nil {
		return manyEnds
	}
	return len(v.way.Pods)
}

func (g nodeGroup) when() place.When { return g.nodes[0].judged.When() }

// text returns the group in one sentence: how long the refusal lasts, on which nodes, and why.
func (g nodeGroup) text(limit int) string {
	var why []string
	for _, r := range g.reasons {
		why = append(why, withoutNever(r.Text()))
	}
	text := refusal(g.nodes[0]) + " on " + nodeList(g.nodes, limit) + ": " + strings.Join(why, "; ")
	if g.differ {
		text += " (at most; these nodes differ)"
	}
	return text
}

// withoutNever returns the text of a reason without the verdict at its beginning, which the group has already.
func withoutNever(text string) string {
	for _, begin := range []string{"never on this machine: ", "never on this node: "} {
		if rest, ok := strings.CutPrefix(text, begin); ok {
			return rest
		}
	}
	return text
}

// remedies returns the remedies of the group's reasons, each once.
func (g nodeGroup) remedies() (out []string) {
	for _, r := range g.reasons {
		if remedy := r.Remedy(); remedy != "" && !slices.Contains(out, remedy) {
			out = append(out, remedy)
		}
	}
	return out
}

// writeGroups writes the groups of nodes that refuse a pod. It names at most limit nodes of a group.
func writeGroups(b *bufio.Writer, groups []nodeGroup, limit int) {
	for _, g := range groups {
		writeWrapped(b, "  ", g.text(limit))
		for _, remedy := range g.remedies() {
			writeWrapped(b, "    ", "Remedy: "+remedy+".")
		}
	}
}

// maxNamed bounds the names of nodes in one group without --all, in columns, so that a group stays short.
const maxNamed = 60

// nodeList returns the names of the first limit nodes, and the number of the others. If the limit leaves nodes out, it
// returns only names that take maxNamed columns together, at least one.
func nodeList(group []verdictOn, limit int) string {
	list, count := "", 0
	for _, v := range group[:min(limit, len(group))] {
		name := v.name
		if v.node != nil && len(v.node.Inexact) > 0 {
			name += inexactMark
		}
		if limit < len(group) && count > 0 && len(list)+len(name) > maxNamed {
			break
		}
		if count++; count > 1 {
			list += ", "
		}
		list += name
	}
	if more := len(group) - count; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// groupDocument is a group of nodes in the document of explain.
type groupDocument struct {
	// Nodes are the nodes of the group; those that can be freed come first.
	Nodes []string `json:"nodes"`
	// When is when the pod may fit: never, changed (after a change of the pod or the node), or later.
	When string `json:"when"`
	// Error is the error that the kubelets would give.
	Error   string            `json:"error,omitempty"`
	Reasons []document.Reason `json:"reasons"` // have is the most that any of the nodes has
	// AmountsDiffer: some of the nodes have less than the reasons say.
	AmountsDiffer bool `json:"amountsDiffer,omitempty"`
}

func (g nodeGroup) document() groupDocument {
	return groupDocument{Nodes: document.Each(g.nodes, func(v verdictOn) string { return v.name }), When: string(g.when()),
		Error: string(g.nodes[0].judged.Verdict.Refusal), Reasons: document.Each(g.reasons, document.ReasonOf),
		AmountsDiffer: g.differ}
}
