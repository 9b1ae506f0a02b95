package whatif

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file asks for devices of claims (dynamic resource allocation, DRA), which neither amounts nor holdings contain.

// Devices decides whether pods get devices of their claims. Pods with equal Devices (==) ask for the same. The same
// question has the same answer, so a plan can be tried and undone.
type Devices interface {
	// Lacks returns why a pod gets no devices at a site, or nil if it gets some.
	Lacks(at Site) []place.Reason
	// Unsure reports whether some answer of Lacks was a reason only because it could not be found out.
	Unsure() bool
}

// Site is a node as far as devices are concerned, and where a pod would be on it.
type Site struct {
	Node string
	// Freed are the UIDs of pods that have left the node, ascending, and Given are the pods that have got devices there
	// since, in order. They are never changed.
	Freed []string
	Given []Given
	Near
}

// Near is where the exclusive CPUs and the pinned memory of a pod are.
type Near struct {
	// NUMAs are the kernel's ids of NUMA nodes, ascending; empty if the pod has neither.
	NUMAs []int
	// Must: the scheduler refuses devices on other NUMA nodes.
	Must bool
}

// Given is a pod that has got devices.
type Given struct {
	Devices Devices
	Near
}

// lacksDevices returns why a pod with these holdings gets no devices on the node; nil if it gets some, or needs none.
func (n *Node) lacksDevices(w *Want, holdings []place.Holding) []place.Reason {
	if w.Devices == nil {
		return nil
	}
	return w.Devices.Lacks(Site{n.Name, n.Freed, n.Given, n.near(holdings)})
}

// givesDevices reports whether a pod that fits on the node gets devices there.
func (n *Node) givesDevices(w *Want) bool {
	switch {
	case w.Devices == nil:
		return true
	case w.Pod.Plain() || n.State == nil:
		return n.lacksDevices(w, nil) == nil
	}
	return n.lacksDevices(w, n.State.Place(w.Pod, w.Demand).Holdings) == nil
}

// Give has a pod with these holdings get its devices on the node.
func (n *Node) Give(w *Want, holdings []place.Holding) {
	if w.Devices != nil {
		n.Given = append(n.Given[:len(n.Given):len(n.Given)], Given{w.Devices, n.near(holdings)})
	}
}

// near returns where holdings are. Devices must be near as the argument claims of the scheduler has it by default: on
// nodes whose policy refuses pods that are not aligned. Where Tenon's agent decides, the scheduler looks for another
// place of the pod, and refuses it if no place is near devices. Here devices need not be near then: that the pod gets
// some is not certain, and the caller has to name that.
func (n *Node) near(holdings []place.Holding) (out Near) {
	if n.State == nil || n.State.Machine == nil {
		return out
	}
	m := n.State.Machine
	for _, id := range m.IDs(place.Exclusive(m, holdings)) {
		out.NUMAs = append(out.NUMAs, int(id))
	}
	out.Must = len(out.NUMAs) > 0 && n.State.Quality != state.Estimated && n.State.Rules.Arbiter != place.ByAgent &&
		n.State.Rules.Topology.Policy.Refuses()
	return out
}

// leave records that pods have left the node, whose devices are free then.
func (n *Node) leave(uids []string) {
	n.Freed = slices.Concat(n.Freed, uids)
	slices.Sort(n.Freed)
}
