// Package guard decides from which nodes a scheduler keeps a pod although their kubelets would admit it: too little
// is known about the node, or the pod would harm it. An administrator configures this by the arguments of the plugin.
//
// Invariant: the same arguments give the same answer, and a zero Guard keeps no pod from any node. The package does
// not decide whether a pod fits on a node.
package guard

import (
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Trust selects the pods that may go to nodes without any report.
type Trust int

const (
	// Everybody lets any pod go there.
	Everybody Trust = iota
	// WithoutDemand lets only pods without a demand go there, since no demand can be guaranteed there.
	WithoutDemand
	// Nobody lets no pod go there.
	Nobody
)

// Guard is what a profile keeps pods from.
type Guard struct {
	// Unknown is for nodes without any report.
	Unknown Trust
	// Estimated, Silent and Inexact keep pods from one kind of nodes each: nodes that report amounts only, nodes
	// whose report is overdue, and nodes whose predictions may be wrong.
	Estimated, Silent, Inexact bool
	// KeepRestartable keeps a pod from a node whose kubelet could not start again once it has the pod.
	KeepRestartable bool
}

// Bar is what keeps a pod from a node.
type Bar int

// What may keep a pod from a node; 0 is nothing.
const (
	NotKnown      Bar = iota + 1 // there is no report of the node
	OnlyEstimated                // the node reports amounts only
	IsSilent                     // its report is overdue
	IsInexact                    // predictions for it may be wrong, and the pod would hold something there
	Strands                      // its kubelet could not start again with the pod
)

// Picky reports whether the guard may keep pods from some nodes that have reported.
func (g Guard) Picky() bool { return g.Estimated || g.Silent || g.Inexact || g.KeepRestartable }

// Knows reports whether the node has reported, and not only amounts if the guard excludes such nodes. n is nil for a
// node without any report.
func (g Guard) Knows(n *state.Node) bool {
	return n != nil && (n.Quality == state.Exact || !g.Estimated)
}

// LetsUnknown reports whether a pod with this demand may go to nodes without any report.
func (g Guard) LetsUnknown(d place.Demand) bool {
	return g.Unknown == Everybody || g.Unknown == WithoutDemand && !d.Binds()
}

// Distrusts returns why a node is not trusted, so that all pods are kept from it, or 0. For a node without any report
// (n is nil) it returns NotKnown, and LetsUnknown decides which pods may go there nevertheless.
func (g Guard) Distrusts(n *state.Node) Bar {
	switch {
	case n == nil:
		return NotKnown
	case !g.Knows(n):
		return OnlyEstimated
	case g.Silent && n.Silent:
		return IsSilent
	}
	return 0
}

// Refuses returns why the guard keeps a pod from a node that would admit it, or 0.
func (g Guard) Refuses(n *state.Node, p *place.Pod, d place.Demand) Bar {
	switch {
	case g.Inexact && len(n.Inexact) > 0 && len(n.Place(p, d).Holdings) > 0:
		return IsInexact
	case g.KeepRestartable && strands(n, p):
		return Strands
	}
	return 0
}

// strands reports whether the pod would take the CPUs that the node's kubelet needs for a restart. It is false if the
// kubelet cannot restart even without the pod.
func strands(n *state.Node, p *place.Pod) bool {
	if !n.Rules.CPU.Static || !n.Rules.CPU.StrictReservation || n.Usage == nil || stranded(n) {
		return false
	}
	with, ok := n.With(state.PodID{}, p)
	return ok && stranded(with)
}

// stranded reports whether the kubelet could not start again with what the node holds, since no CPU is left to share.
func stranded(n *state.Node) bool {
	for _, h := range n.Usage.RestartHazards() {
		if h.Code == place.NoSharedCPU {
			return true
		}
	}
	return false
}

// Codes returns the distinct codes of reasons why predictions are inexact, in ascending order, separated by commas.
func Codes(in []state.Inexact) string {
	var out []string
	for _, r := range in {
		out = append(out, string(r.Code))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}
