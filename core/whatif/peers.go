package whatif

import "github.com/tenon-numa/tenon/core/place"

// This file describes requirements between a pod and pods elsewhere in the cluster, such as affinity and spreading.
// Unlike [Bars] they change with every pod that is placed.

// Peers describes a pod to other pods, and its requirements on them.
type Peers interface {
	// Among returns the pod's neighbours on the nodes of a plan, by position. Nodes that are gone do not count.
	Among(nodes []Node) Neighbours
	// Same reports whether another pod has the same requirements, and the requirements of others mean the same for it.
	Same(o Peers) bool
}

// Neighbours decides for one pod to which nodes its own requirements and those of all other pods let it go.
type Neighbours interface {
	// Placed adds another pod, which a plan has placed on the node at a position.
	Placed(p Peers, node int)
	// Lets reports whether the pod may go to the node at a position. It must be fast.
	Lets(node int) bool
	// Why returns the reasons why the pod may not go to the node at a position. The result is empty exactly if Lets
	// returns true.
	Why(node int) []place.Reason
}

// Barred returns why a pod may not go to nodes, by position, without regard to amounts and NUMA nodes.
func (w *Want) Barred(nodes []Node) [][]place.Reason {
	out := make([][]place.Reason, len(nodes))
	neighbours, with := w.neighbours(nodes), partners(nodes, w.Demand)
	for i := range nodes {
		out[i] = elsewhere(w.barred(neighbours, i), nodes, with, i)
	}
	return out
}

// neighbours returns the pod's neighbours on the nodes, or nil if no other pod matters.
func (w *Want) neighbours(nodes []Node) Neighbours {
	if w.Peers == nil {
		return nil
	}
	return w.Peers.Among(nodes)
}

// barred returns why the pod may not go to the node at a position. neighbours is nil if no other pod matters.
func (w *Want) barred(neighbours Neighbours, at int) []place.Reason {
	out := w.Bars.at(at)
	if neighbours != nil && !neighbours.Lets(at) {
		out = append(out[:len(out):len(out)], neighbours.Why(at)...)
	}
	return out
}

// placedPeer is a pod that a plan has placed, as far as it matters to other pods.
type placedPeer struct {
	peers Peers
	node  int
}

// neighbours returns the neighbours of a pod on a plan, including the pods that the plan has placed. It returns nil
// if no other pod matters.
func (p *Plan) neighbours(w *Want) Neighbours {
	out := w.neighbours(p.nodes)
	if out == nil {
		return nil
	}
	for _, x := range p.placed {
		out.Placed(x.peers, x.node)
	}
	return out
}

// recordPlaced records a pod that has been placed on a node, for later pods and in neighbours. It does nothing for a
// pod without Peers.
func (p *Plan) recordPlaced(w *Want, neighbours Neighbours, node int) {
	if w.Peers == nil {
		return
	}
	p.placed = append(p.placed, placedPeer{w.Peers, node})
	if neighbours != nil {
		neighbours.Placed(w.Peers, node)
	}
}
