package ledger

import (
	"slices"

	"github.com/tenon-numa/tenon/core/state"
)

// Promise sets the pods that have not come yet and for which a node keeps room, in place of those before; see
// [state.Promised]. It does not judge whether the node has room for them: the caller asks [state.Node.Keeps] of a
// snapshot that it takes after the call. From the call on, nothing that would take the room is reserved.
func (b *Book) Promise(node string, list []state.Promised) {
	a := b.ensure(node)
	defer b.close(a)
	if len(list) == 0 && len(a.promised) == 0 {
		return
	}
	a.promised = slices.Clone(list)
	b.renew(a)
}

// Entitle lets a reserved pod have its turn although the promised pods do not fit after it: it was promised room
// itself, and its node has lost some, so the first pods that come get what is left.
func (b *Book) Entitle(uid string) {
	a := b.accountOf(uid)
	if a == nil {
		return
	}
	defer b.close(a)
	if f := a.find(uid); f != nil {
		f.entitled = true
	}
}

// keepsPromises reports whether the promised pods fit in a state.
func (a *account) keepsPromises(w *nodeState) bool {
	if len(a.promised) == 0 {
		return true
	}
	n := a.node(w)
	n.Promised = a.promised
	return n.Keeps()
}
