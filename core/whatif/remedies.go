package whatif

import (
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file tries remedies for what the empty node does not give to a pod.

// Tried returns a copy of the reasons with remedies. It looks for the first permanent reason that other settings of
// the topology manager may remove. To this reason it adds settings under which the pod fits on the empty node
// (Under). For the code Widths it also adds an amount that fits (Fit). If there is no such reason, or the node's
// state is unknown, it returns the reasons themselves. It places the pod some twenty times, so callers should call it
// once for a group of equal reasons.
func (n *Node) Tried(w *Want, reasons []place.Reason) []place.Reason {
	at := slices.IndexFunc(reasons, func(r place.Reason) bool { return r.Never && tunable(r.Code) })
	if at < 0 || n.State == nil {
		return reasons
	}
	out := slices.Clone(reasons)
	if out[at].Under = settings(n.State, w); out[at].Code == place.Widths {
		out[at].Fit = fittingAmount(n.State.Empty(), w, out[at])
	}
	return out
}

// tunable reports whether other settings of the topology manager may remove a reason.
func tunable(c place.Code) bool {
	switch c {
	case place.OneNUMA, place.NoNUMA, place.Width, place.Widths, place.Together, place.Reuse, place.Group, place.Chosen,
		place.Demanded, place.Drawn:
		return true
	}
	return false
}

// settings returns settings of the topology manager, as lines of the kubelet's configuration, under which the empty
// node takes the pod. It tries another scope, and the policy that the pod demands in both scopes. The result is empty
// if none of these help.
func settings(n *state.Node, w *Want) string {
	own := n.Rules.Topology
	if own.Policy != place.Restricted && own.Policy != place.SingleNUMA && !w.Demand.Binds() {
		return ""
	}
	other := place.PerPod
	if own.Scope == place.PerPod {
		other = place.PerContainer
	}
	policies := []place.Policy{own.Policy}
	if w.Demand.Binds() && w.Demand.Policy != own.Policy {
		policies = append(policies, w.Demand.Policy)
	}
	for _, policy := range policies {
		for _, scope := range []place.Scope{own.Scope, other} {
			r := n.Rules
			r.Topology.Policy, r.Topology.Scope = policy, scope
			if r.Topology != own && takes(place.NewUsage(n.Machine, r), w.Pod, w.Demand) {
				return lines(own, r.Topology)
			}
		}
	}
	return ""
}

// lines names the fields of a kubelet's configuration by which two settings differ.
func lines(old, next place.TopologyRules) string {
	var out []string
	if next.Policy != old.Policy {
		out = append(out, "topologyManagerPolicy: "+next.Policy.String())
	}
	if next.Scope != old.Scope {
		out = append(out, "topologyManagerScope: "+next.Scope.String())
	}
	return strings.Join(out, " and ")
}

// takes reports whether a pod fits on a usage, including its demand.
func takes(u *place.Usage, p *place.Pod, d place.Demand) bool {
	return place.Judge(u, p, place.Place(u, p), d).Fits()
}

// fittingAmount returns an amount of the resource r.With, below what the pod requests, with which the pod fits on a
// node: the largest one that a binary search finds. It returns 0 if no tried amount fits, if no container or
// several request the resource, or if the pod has requests as a whole. It tries whole CPUs (whole cores where the
// kubelet gives only these), whole devices, and GiB of memory.
func fittingAmount(u *place.Usage, w *Want, r place.Reason) int64 {
	at, now := requester(w.Pod, r)
	if at < 0 {
		return 0
	}
	unit := int64(1)
	switch {
	case !counted(r.With):
		unit = 1 << 30
	case r.With == "cpu" && u.Rules.CPU.FullPCPUsOnly:
		unit = int64(u.Machine.CoreCPUs(u.Machine.Cores()[0]).Len())
	}
	fits, tooMuch := int64(0), (now+unit-1)/unit
	for fits+1 < tooMuch {
		n := fits + (tooMuch-fits)/2
		if takes(u, requesting(w.Pod, at, r.With, n*unit), w.Demand) {
			fits = n
		} else {
			tooMuch = n
		}
	}
	return fits * unit
}

// requester returns the index of the container that requests the resource r.With, and the requested amount. If
// r.Container is set, only this container counts. The index is -1 if no container or several request the resource, or
// if the pod has requests as a whole.
func requester(p *place.Pod, r place.Reason) (at int, n int64) {
	at = -1
	for i := range p.Containers {
		c := &p.Containers[i]
		if have := amountOf(c, r.With); have > 0 && (r.Container == "" || r.Container == c.Name) {
			if at >= 0 {
				return -1, 0
			}
			at, n = i, have
		}
	}
	if p.PodLevel {
		return -1, 0
	}
	return at, n
}

// amountOf returns how much of a resource a container asks for; CPUs in whole ones.
func amountOf(c *place.Container, resource string) int64 {
	if resource == "cpu" {
		return c.MilliCPU / 1000
	}
	for _, a := range c.Memory {
		if a.Kind == resource {
			return a.Bytes
		}
	}
	for _, d := range c.Devices {
		if d.Resource == resource {
			return d.N
		}
	}
	return 0
}

// requesting returns a copy of the pod in which the container at index at requests n of a resource: whole CPUs, bytes
// or devices. Memory or devices that the container did not request are not added.
func requesting(p *place.Pod, at int, resource string, n int64) *place.Pod {
	out := *p
	out.Containers = slices.Clone(p.Containers)
	c := &out.Containers[at]
	c.Memory, c.Devices = slices.Clone(c.Memory), slices.Clone(c.Devices)
	if resource == "cpu" {
		c.MilliCPU = n * 1000
	}
	for i := range c.Memory {
		if c.Memory[i].Kind == resource {
			c.Memory[i].Bytes = n
		}
	}
	for i := range c.Devices {
		if c.Devices[i].Resource == resource {
			c.Devices[i].N = n
		}
	}
	return &out
}
