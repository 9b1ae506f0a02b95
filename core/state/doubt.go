package state

import "slices"

// Doubtful returns in a few words why the node's holdings are uncertain: a report is overdue, too many pods are
// bound, or the next report will show which of several states the node is in. It returns "" for a node that is not in
// doubt, and also for a settled estimated node in several states, since no report will decide between them.
func (n *Node) Doubtful() string {
	switch {
	case n.Silent:
		return "node's agent is silent"
	case n.Unsettled && slices.ContainsFunc(n.Inexact, flooded):
		return "more pods are bound to the node than are followed until it reports"
	case !n.Unsettled && len(n.Unlisted) > 0:
		return "node does not report pod " + n.Unlisted[0].String()
	case n.Unsettled || n.Quality == Exact && len(n.Others) > 0:
		return "node has not reported what assumed pods got"
	}
	return ""
}

func flooded(i Inexact) bool { return i.Code == PodsUnreported }
