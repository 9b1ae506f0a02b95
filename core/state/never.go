package state

import "github.com/tenon-numa/tenon/core/place"

// Empty returns the usage of the node without any pod. Nodes with the same machine and rules share it.
func (n *Node) Empty() *place.Usage {
	if e := n.Basis.Empty; e != nil && e.Alike(n.Usage) {
		return e
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

// NeverMeets returns the result of Never. If that is empty, it returns why the node without any pod would not satisfy
// the pod's demand: then it does not help to wait until pods have ended. In a few cases the demand is satisfied only
// beside other pods, which push a container to another NUMA node. So the result does not prove that the node cannot
// take the pod.
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
