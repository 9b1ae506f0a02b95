package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// This file writes the message of a failed attempt's event. kube-scheduler orders reasons alphabetically, cuts the list
// at 1024 bytes, and has only one plugin's reasons for each node. So a temporary shortage would hide a permanent
// refusal.

const (
	// maxMessage leaves room in an event for the number of nodes and the message of preemption.
	maxMessage = 800
	// neverBegins is the beginning of place.Reason.Text for reasons that no end of a pod removes.
	neverBegins = "never "
)

// NoNode returns a list of the reasons why nodes refuse a pod, with the number of nodes for each. Permanent reasons
// come first, then the most frequent ones, and the list ends with a whole reason. The advice, if any, follows it.
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
	first := func(x item) int {
		if strings.HasPrefix(x.text, neverBegins) {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(x, y item) int {
		return cmp.Or(first(x)-first(y), y.count-x.count, strings.Compare(x.text, y.text))
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
