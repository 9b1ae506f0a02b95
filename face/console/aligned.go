package console

import (
	"github.com/tenon-numa/tenon/cluster/live"
	"github.com/tenon-numa/tenon/core/state"
)

// alignment is the number of misaligned pods on a node in one state.
type alignment struct {
	state      *state.Node
	misaligned int
}

// misaligned counts the misaligned pods of a node. It keeps complete answers until the node's state changes, because
// an overview asks for every node. The caller holds the lock of the overviews.
func (i *Identity) misaligned(n live.Node) int {
	if n.State == nil || i.Misaligned == nil {
		return 0
	}
	o := &i.overviews
	if a, ok := o.alignments[n.Name]; ok && a.state == n.State {
		return a.misaligned
	}
	uids, complete := i.Misaligned(n.State)
	if complete {
		if o.alignments == nil {
			o.alignments = map[string]alignment{}
		}
		o.alignments[n.Name] = alignment{n.State, len(uids)}
	}
	return len(uids)
}

// forget drops the counts of nodes that the cluster no longer has.
func (o *overviews) forget(s live.State) {
	if len(o.alignments) <= len(s.Nodes) {
		return
	}
	for name := range o.alignments {
		if _, ok := s.Node(name); !ok {
			delete(o.alignments, name)
		}
	}
}
