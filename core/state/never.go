package state

import "github.com/tenon-numa/tenon/core/place"

// Empty returns the usage of the node without any pod. Nodes with the same machine and rules share it.
func (n *Node) Empty() *place.Usage {
	if e := n.Basis.Empty; e != nil && e.Alike(n.Usage) {
		return e
	}
	return n.Usage.Empty()
}

// Never returns why a pod would not fit on the node even if no other pod were there, so that the end of other pods
// never makes room. The result is empty if the pod would fit. The pod's own demand does not count, because other
// pods' holdings decide whether it is satisfied.
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

// NeverMeets returns the result of Never. If that is empty, it returns why the node without any pod would not satisfy
// the pod's demand, so that it does not help to wait until pods have ended. The result does not prove that the node
// never takes the pod: in a few cases the demand is satisfied only beside other pods, which push a container to
// another NUMA node.
func (n *Node) NeverMeets(p *place.Pod, d place.Demand) []place.Reason {
	out := n.Never(p)
	if len(out) > 0 || !d.Binds() {
		return out
	}
	empty := n.Empty()
	out = place.Judge(empty, p, place.Place(empty, p), d).Reasons
	for i := range out {
		// Untied is about the node's managers, whatever the node holds: Reason.When returns Changed for it.
		out[i].Never = out[i].Code != place.Untied
	}
	return out
}
