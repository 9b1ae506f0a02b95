// Package guard says which nodes a scheduler keeps pods from though their kubelets would take the pods: too little is
// known of the node, or the pod would harm it. An administrator decides what is kept away, by the arguments of the
// plugin.
//
// Invariant: the same arguments give the same answer, and a zero Guard keeps no pod from any node. The package refuses
// to say whether a node takes a pod.
package guard

import (
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// Trust says which pods may go to nodes of which nothing is known.
type Trust int

const (
	// Everybody may go there.
	Everybody Trust = iota
	// WithoutDemand lets pods there that demand nothing of their placement, since nobody could promise it.
	WithoutDemand
	// Nobody may.
	Nobody
)

// Guard is what a profile keeps pods from.
type Guard struct {
	// Unknown is for nodes of which nothing is known.
	Unknown Trust
	// Coarse, Silent and Inexact keep pods from nodes of which only amounts are known, whose report is overdue, and for
	// which predictions may be wrong.
	Coarse, Silent, Inexact bool
	// KeepRestartable keeps a pod from a node whose kubelet could not start again once it has the pod.
	KeepRestartable bool
}

// Bar is what keeps a pod from a node.
type Bar int

// What may keep a pod from a node; 0 is nothing.
const (
	NotKnown   Bar = iota + 1 // nothing is known of the node
	OnlyCoarse                // only amounts are known of it
	IsSilent                  // its report is overdue
	IsInexact                 // predictions for it may be wrong, and the pod would hold something there
	Strands                   // its kubelet could not start again
)

// Picky reports whether the guard keeps pods from nodes of which something is known.
func (g Guard) Picky() bool { return g.Coarse || g.Silent || g.Inexact || g.KeepRestartable }

// Knows reports whether enough is known of a node to judge it, n being what is known or nil.
func (g Guard) Knows(n *ledger.Node) bool {
	return n != nil && (n.Quality == ledger.Exact || !g.Coarse)
}

// LetsUnknown reports whether a pod with a demand may go to nodes of which nothing is known.
func (g Guard) LetsUnknown(d place.Demand) bool {
	return g.Unknown == Everybody || g.Unknown == WithoutDemand && !d.Binds()
}

// Distrusts says why pods are kept from a node whatever they ask for, n being what is known of it or nil.
func (g Guard) Distrusts(n *ledger.Node) Bar {
	switch {
	case n == nil:
		return NotKnown
	case !g.Knows(n):
		return OnlyCoarse
	case g.Silent && n.Silent:
		return IsSilent
	}
	return 0
}

// Spares says why a pod is kept from a node that would take it.
func (g Guard) Spares(n *ledger.Node, p *place.Pod, d place.Demand) Bar {
	switch {
	case g.Inexact && len(n.Inexact) > 0 && len(n.Place(p, d).Holdings) > 0:
		return IsInexact
	case g.KeepRestartable && strands(n, p):
		return Strands
	}
	return 0
}

// strands reports whether the pod would take the CPUs without which the node's kubelet does not start again. A kubelet
// that could not restart before may have the pod.
func strands(n *ledger.Node, p *place.Pod) bool {
	if !n.Rules.CPU.Static || !n.Rules.CPU.StrictReservation || n.Usage == nil || stranded(n) {
		return false
	}
	with, ok := n.With(ledger.PodID{}, p)
	return ok && stranded(with)
}

func stranded(n *ledger.Node) bool {
	for _, h := range n.Usage.RestartHazards() {
		if h.Code == place.NoSharedCPU {
			return true
		}
	}
	return false
}
