package pin

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
)

// Awaiting returns the node that keeps what is decided for the pods in bound free until these pods arrive. They
// replace the bound pods of earlier calls. Awaiting ignores pods that have no decision or have arrived. A decision
// that is not free, or not what its pod asks for, keeps nothing free.
func (n *Node) Awaiting(bound []Arrival) *Node {
	var expected []Arrival
	for _, b := range bound {
		if b.Decision != nil && n.index(b.UID) < 0 {
			expected = append(expected, b)
		}
	}
	if slices.EqualFunc(expected, n.bound, func(a, b Arrival) bool {
		return a.UID == b.UID && a.Spec.Shape() == b.Spec.Shape() && slices.EqualFunc(a.Decision, b.Decision, sameHolding)
	}) {
		return n
	}
	return &Node{empty: n.empty, pods: n.pods, bound: expected}
}

// sameHolding reports whether two decisions give a container the same.
func sameHolding(a, b place.Holding) bool { return a.Container == b.Container && a.Matches(b) }

// usageWithBound returns the node's usage, in which bound pods that have not arrived hold what is decided for them.
// It leaves out the bound pod whose UID is except.
func (n *Node) usageWithBound(except string) *place.Usage {
	return n.Usage().Hold(n.boundHoldings(except)...)
}

// boundHoldings returns what the bound pods that have not arrived will hold by their decisions. It leaves out the pod
// whose UID is except.
func (n *Node) boundHoldings(except string) (out []place.Holding) {
	u := n.Usage()
	for _, b := range n.bound {
		if b.UID == except || n.index(b.UID) >= 0 {
			continue
		}
		if v, kept := place.Decided(u, b.Spec, b.Decision); kept {
			u = u.Hold(v.Holdings...)
			out = append(out, v.Holdings...)
		}
	}
	return out
}
