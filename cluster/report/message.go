package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// This file words the event of an attempt that failed. kube-scheduler lists reasons in the order of their texts, cuts
// the list at 1024 bytes, and has one plugin's reasons of each node: a shortage that passes hides what can never be.

const (
	// maxMessage leaves room in an event for the number of nodes and what preemption says.
	maxMessage = 800
	// neverBegins is how place.Reason.Text begins where no end of a pod helps.
	neverBegins = "never "
)

// NoNode lists why nodes refuse a pod, with the number of nodes that give each reason. What can never be comes first,
// then what most nodes say, and the list ends with a whole reason. The advice, if there is one, follows it.
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
