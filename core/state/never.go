package state

import (
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Empty returns the usage of the node without any pod. Nodes with the same machine and rules share it.
func (n *Node) Empty() *place.Usage {
	if e := n.Basis.Empty; e != nil && e.Alike(n.Usage) {
		return e
	}
	return n.Usage.Empty()
}

// Never returns why a pod would not fit on the node even if no other pod were there, so that the end of other pods
// never makes room. The result is empty if the pod would fit. If the refusal proves nothing about the node with other
// pods on it, Doubt of the reasons is set. The pod's own demand does not count, because other pods' holdings decide
// whether it is satisfied.
func (n *Node) Never(p *place.Pod) []place.Reason {
	empty := n.Empty()
	if place.Fits(empty, p) {
		return nil
	}
	out, doubt := refusal(empty, p)
	for i := range out {
		out[i].Never, out[i].Doubt = true, doubt
		if mayRecover(empty.Machine, out[i]) {
			out[i].Doubt = place.Unhealthy
		}
	}
	return out
}

// mayRecover reports whether what is missing may be devices that are unhealthy now.
func mayRecover(m *topo.Machine, r place.Reason) bool {
	for name := range strings.SplitSeq(r.Resource, ", ") { // the reason for several resources names them all
		x, ok := m.Resource(name)
		if !ok || !slices.ContainsFunc(x.Devices, func(d topo.Device) bool { return d.Unhealthy }) {
			continue
		}
		if r.Code == place.Together || r.Want <= int64(len(x.Devices)) {
			return true
		}
	}
	return false
}

// refusal returns why the empty machine refuses a pod, and whether that is in doubt.
func refusal(empty *place.Usage, p *place.Pod) ([]place.Reason, place.Doubt) {
	v := place.Place(empty, p)
	rules := empty.Rules.Topology
	atOnce := rules.Scope == place.PerPod && rules.Policy.Refuses()
	if !atOnce && len(p.Containers) > 1 && !p.PodLevel {
		switch proof := alone(empty, p, v.Reasons); {
		case len(proof) > 0:
			return proof, ""
		case !v.Chance:
			return v.Reasons, place.BesideOthers
		}
	}
	if v.Chance {
		return v.Reasons, place.ByChance
	}
	return v.Reasons, ""
}

// alone returns why the empty machine refuses a container of a pod even without the pod's other containers, or nothing
// if it would admit each of them. It returns all of the pod's reasons if these are about such a container.
func alone(empty *place.Usage, p *place.Pod, all []place.Reason) (out []place.Reason) {
	for i := range p.Containers {
		one := *p
		one.Containers = []place.Container{p.Containers[i]}
		one.Containers[0].Kind = place.App
		if place.Fits(empty, &one) {
			continue
		}
		switch v := place.Place(empty, &one); {
		case v.Chance:
		case len(all) > 0 && all[0].Container == p.Containers[i].Name:
			return all
		case out == nil:
			out = v.Reasons
		}
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
	one := n.emptied()
	one.Quality = Exact // what an estimated node does not enforce is no matter of other pods
	out = one.placeHere(p, d).Reasons
	for i := range out {
		// Untied is about the node's managers, whatever the node holds: Reason.When returns Changed for it.
		out[i].Never = out[i].Code != place.Untied
	}
	return out
}
