package ledger

import "slices"

// Doubtful says why it is not known what the node holds, in a few words, or "": a report of it is overdue, or
// the next one will tell in which of several states it is. A coarse node may be in several states for good.
func (n *Node) Doubtful() string {
	switch {
	case n.Silent:
		return "node's agent is silent"
	case n.Unsettled && slices.ContainsFunc(n.Inexact, func(i Inexact) bool { return i.Code == PodsUnreported }):
		return "more pods are bound to the node than are followed until it reports"
	case n.Unsettled || n.Quality == Exact && len(n.Others) > 0:
		return "node has not reported what assumed pods got"
	}
	return ""
}
