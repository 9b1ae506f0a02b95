package whatif

import "github.com/tenon-numa/tenon/core/place"

// This file describes requirements between a pod and pods elsewhere in the cluster, such as affinity and spreading.
// Unlike [Bars] they change with every pod that is placed.

// Peers describes a pod to other pods, and its requirements on them.
type Peers interface {
	// Among returns the pod's neighbours on the nodes of a plan, by position. Nodes that are gone do not count.
	Among(nodes []Node) Neighbours
}

// Neighbours decides for one pod to which nodes its requirements and the requirements of all other pods let it go.
type Neighbours interface {
	// Placed adds a pod that a plan has placed on the node at a position.
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
	around := w.among(nodes)
	for i := range nodes {
		out[i] = w.barred(around, i)
	}
	return out
}

// among returns the neighbours on the nodes, or nil if no other pod matters.
func (w *Want) among(nodes []Node) Neighbours {
	if w.Peers == nil {
		return nil
	}
	return w.Peers.Among(nodes)
}

// barred returns why the pod may not go to the node at a position. around is nil if no other pod matters.
func (w *Want) barred(around Neighbours, at int) []place.Reason {
	out := w.Bars.at(at)
	if around != nil && !around.Lets(at) {
		out = append(out[:len(out):len(out)], around.Why(at)...)
	}
	return out
}

// settled is a pod that a plan has placed, in the form that other pods need.
type settled struct {
	peers Peers
	node  int
}

// around returns the neighbours of a pod on a plan, including the pods that the plan has placed. It returns nil if no
// other pod matters.
func (p *Plan) around(w *Want) Neighbours {
	out := w.among(p.nodes)
	if out == nil {
		return nil
	}
	for _, x := range p.settled {
		out.Placed(x.peers, x.node)
	}
	return out
}

// settle records a pod that has been placed.
func (p *Plan) settle(w *Want, around Neighbours, node int) {
	if w.Peers == nil {
		return
	}
	p.settled = append(p.settled, settled{w.Peers, node})
	if around != nil {
		around.Placed(w.Peers, node)
	}
}
