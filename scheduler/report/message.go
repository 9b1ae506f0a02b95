package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// This file writes the message of the event on a failed attempt. kube-scheduler's own message orders reasons by the
// alphabet, ends after 1024 bytes, and has the reasons of only one plugin for each node. So a temporary shortage
// would hide a permanent refusal.

const (
	// maxMessage leaves room in an event for the number of nodes and the message of preemption.
	maxMessage = 800
	// neverBegins is the beginning of place.Reason.Text for permanent reasons, which no end of a pod removes.
	neverBegins = "never "
)

// NoNode returns a list of the reasons why nodes refuse a pod, with the number of nodes for each. Permanent reasons
// come first, then the most frequent ones. A list that would exceed maxMessage ends after a complete reason, with the
// number of omitted ones. The advice, if not empty, follows the list.
func NoNode(counts map[string]int, advice string) string {
	if advice != "" {
		advice = ". " + advice
	}
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
		if b.Len() > 0 && b.Len()+len(next)+len(advice) > maxMessage {
			fmt.Fprintf(&b, ", and %d other reasons", len(all)-i)
			break
		}
		b.WriteString(next)
	}
	return b.String() + advice
}
