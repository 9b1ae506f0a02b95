package ledger

import (
	"slices"

	"github.com/tenon-numa/tenon/core/state"
)

// Mistrust adds a reason why the last report of a node is inexact, in place of a reason with the same code. The next
// report drops it. Mistrust does nothing for a node without a layout.
func (b *Book) Mistrust(node string, why state.Inexact) {
	a := b.open(node)
	defer b.close(a)
	if a == nil || a.layout == nil || slices.Contains(a.layout.Inexact, why) {
		return
	}
	l := *a.layout
	same := func(i state.Inexact) bool { return i.Code == why.Code }
	l.Inexact = append(slices.DeleteFunc(slices.Clone(l.Inexact), same), why)
	a.layout = &l
	b.renew(a)
}

// Reporters returns the nodes that account for a pod, in ascending order of name. There is one, unless reports
// contradict each other.
func (b *Book) Reporters(uid string) []string { return b.holders(uid) }
