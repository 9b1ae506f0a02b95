package ledger

import "github.com/tenon-numa/tenon/core/place"

// Empty returns the usage of the node without any pod. Nodes with the same machine and rules share it.
func (n *Node) Empty() *place.Usage {
	if n.empty != nil && n.empty.Alike(n.Usage) {
		return n.empty
	}
	return n.Usage.Empty()
}

// Never returns why a pod would not fit on the node without any pod, under the same rules: then the end of other pods
// never makes room. The result is empty if the pod would fit there. The pod's own demand does not count, because
// whether it is satisfied depends on what other pods hold.
func (n *Node) Never(p *place.Pod) []place.Reason {
	empty := n.Empty()
	if place.Fits(empty, p) {
		return nil
	}
	out := place.Place(empty, p).Reasons
	for i := range out {
		out[i].Never = true
	}
	return out
}
