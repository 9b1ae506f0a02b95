package report

import (
	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/state"
)

// Barred returns the reason why the guard keeps a pod from a node and, where that helps, which setting to change. n
// must not be nil for guard.IsInexact.
func Barred(why guard.Bar, n *state.Node) string {
	switch why {
	case guard.OnlyEstimated:
		return "node has a NodeResourceTopology and no layout"
	case guard.IsSilent:
		return "node's agent is silent: a report is overdue"
	case guard.IsInexact:
		return "predictions for the node are inexact (" + guard.Codes(n.Inexact) +
			"): mend what its NodeLayout lists as inexact, or set inexactNodes: Allow"
	case guard.Strands:
		return "node's kubelet could not restart: the pod would take the last shared CPU " +
			"(strict-cpu-reservation); free one CPU, or set keepRestartable: false"
	}
	return "node has no layout"
}
