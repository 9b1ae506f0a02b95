package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/state"
)

// This file writes warnings about nodes that matter before a user relies on a prediction or restarts a kubelet.

// warnings returns the rows that a map shows about nodes, in the order of the nodes.
func warnings(nodes []*state.Node) (out []document.Problem) {
	for _, n := range nodes {
		for _, r := range n.Inexact {
			text := strings.TrimSuffix("predictions may be inexact: "+string(r.Code)+": "+r.Message, ": ")
			out = append(out, document.Problem{Node: n.Name, Reason: text})
		}
		for _, h := range n.RestartHazards() {
			out = append(out, document.Problem{Node: n.Name, Reason: h.Text()})
		}
	}
	return append(out, unalignedRows(nodes)...)
}

// unalignedRows returns the rows about what kubelets do not align. Each setting has one row, with its first node and
// the number of the others, because on a cluster that is not configured the setting is the same on every node.
func unalignedRows(nodes []*state.Node) (out []document.Problem) {
	on := map[string][]string{}
	for _, n := range nodes {
		for _, u := range document.Forgotten(n) {
			on[u.Text()] = append(on[u.Text()], n.Name)
		}
	}
	for text, names := range on {
		first := names[0]
		if more := len(names) - 1; more > 0 {
			first += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, document.Problem{Node: first, Reason: "not aligned: " + text})
	}
	return sortedProblems(out)
}

// inexactMark is written behind the name of a node for which predictions may be inexact.
const inexactMark = " (inexact)"

// inexactCodes returns the codes of the reasons why predictions for a node may be inexact, each once, separated by
// commas; "" if there are none.
func inexactCodes(n *state.Node) string {
	var out []string
	for _, r := range n.Inexact {
		out = append(out, string(r.Code))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}
