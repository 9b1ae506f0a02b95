package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/summary"
)

// This file writes the message of the event on a failed attempt. kube-scheduler's own message orders reasons by the
// alphabet, ends after 1024 bytes, and has the reasons of only one plugin for each node. So a temporary shortage
// would hide a permanent refusal.

const (
	// maxMessage leaves room in an event for the number of nodes and the message of preemption.
	maxMessage = 800
	// maxSummary and maxRemedy bound the parts before the list of reasons.
	maxSummary = 420
	maxRemedy  = 160
	// neverBegins is the beginning of place.Reason.Text for permanent reasons, which no end of a pod removes.
	neverBegins = "never "
)

// NoNode returns the message about a pod that no node takes: the one sentence, what helps, and then the reasons of the
// nodes, with the number of nodes for each. Permanent reasons come first, then the most frequent ones. A list that
// would exceed maxMessage ends after a complete reason, with the number of omitted ones. A summary without text is left
// out.
func NoNode(s summary.Summary, counts map[string]int) string {
	s.Text, s.Remedy = printable.Clip(s.Text, maxSummary), printable.Clip(s.Remedy, maxRemedy)
	return s.Message(reasons(counts, maxMessage-len(s.Text)-len(s.Remedy)))
}

// reasons returns the list of NoNode, of at most room bytes where the first reason is not longer.
func reasons(counts map[string]int, room int) string {
	type item struct {
		text  string
		count int
	}
	var all []item
	for text, n := range counts {
		all = append(all, item{text, n})
	}
	rank := func(x item) int {
		if strings.HasPrefix(x.text, neverBegins) {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(x, y item) int {
		return cmp.Or(rank(x)-rank(y), y.count-x.count, strings.Compare(x.text, y.text))
	})
	var b strings.Builder
	for i, x := range all {
		next := fmt.Sprintf("%d %s", x.count, x.text)
		if b.Len() > 0 {
			next = ", " + next
		}
		if b.Len() > 0 && b.Len()+len(next) > room {
			fmt.Fprintf(&b, ", and %d other reasons", len(all)-i)
			break
		}
		b.WriteString(next)
	}
	return b.String()
}
