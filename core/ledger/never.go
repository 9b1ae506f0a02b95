package ledger

import "github.com/tenon-numa/tenon/core/place"

// Empty returns the usage of the node without any pod. Nodes that have a machine and rules in common share it.
func (n *Node) Empty() *place.Usage {
	if n.empty != nil && n.empty.Alike(n.Usage) {
		return n.empty
	}
	return n.Usage.Empty()
}

// Never returns why a pod would not fit on the node without any pod: by the same rules, so that no end of a pod makes
// room. It is empty where the pod would fit there. The pod's own demand does not count: what other pods hold decides
// what the node gives, and with that whether the demand is satisfied.
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
