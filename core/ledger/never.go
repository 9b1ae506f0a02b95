package ledger

import "github.com/tenon-numa/tenon/core/place"

// Never returns why a pod would not fit on the node without any pod: by the same rules, so that no end of a pod makes
// room. It is empty where the pod would fit there. The pod's own demand does not count: what other pods hold decides
// what the node gives, and with that whether the demand is satisfied.
func (n *Node) Never(p *place.Pod) []place.Reason {
	empty := n.Usage.Empty()
	if place.Fits(empty, p) {
		return nil
	}
	out := place.Place(empty, p).Reasons
	for i := range out {
		out[i].Never = true
	}
	return out
}
