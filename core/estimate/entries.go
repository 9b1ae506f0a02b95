package estimate

import (
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file divides the amounts of a report among the pods that it contains.
//
// The amounts may already lack a pod whose end has not been reported. If the node does not report which pods it
// counts, it is unknown which pods the amounts lack. So what such a pod held is not given back when its end is
// reported; the next report shows what is free.

// assign sets the node's entries to the pods in fresh and the rest of the amounts. fresh contains all of old. If the
// pods in fresh would hold more than the report shows, agrees is false, and assign uses old instead; if the pods in
// old would also hold too much, it uses no pods. It also uses no pods if the node does not report which pods it
// counts and all counted pods together would hold more than the node reports: then the amounts may lack any of them
// (counted.absent).
func (x *reading) assign(old, fresh []state.Entry) (agrees bool) {
	var fits bool
	if x.entries, agrees = x.attribute(fresh); !agrees {
		if x.entries, fits = x.attribute(old); !fits {
			x.entries, _ = x.attribute(nil)
		}
	}
	if x.amounts.Counts != nil {
		for uid, c := range x.counted {
			if x.in[uid] {
				c.absent = false
				x.counted[uid] = c
			}
		}
		return agrees
	}
	if !agrees && !fits || !x.total(fresh, nil, nil).within(x.held) {
		x.entries, _ = x.attribute(nil)
		for uid, c := range x.counted {
			c.absent = true // the amounts may lack any of them
			x.counted[uid] = c
		}
	}
	return agrees
}

// attribute returns entries for pods, and one for what is held beyond them, NUMA node by NUMA node. agrees is false
// if the pods would hold more of a NUMA node than is held, or if what they keep in addition exceeds the NUMA node.
func (n *Node) attribute(pods []state.Entry) (out []state.Entry, agrees bool) {
	m := n.empty.Machine
	held := n.empty.Hold(n.amounts.Held...)
	shown := n.empty.Hold(n.shown(state.Holdings(pods))...)
	all := n.empty.Hold(state.Holdings(pods)...)
	rest := place.Holding{}
	var cpus []idset.CPU
	for i, numa := range m.NUMAs() {
		free := numa.CPUs.And(all.FreeCPUs())
		more := numa.CPUs.AndLen(shown.FreeCPUs()) - numa.CPUs.AndLen(held.FreeCPUs())
		if more < 0 || more > free.Len() {
			return nil, false
		}
		cpus = append(cpus, free.List()[:more]...)
		for _, kind := range m.Kinds() {
			switch more := shown.FreeMemory(i, kind) - held.FreeMemory(i, kind); {
			case more < 0 || more > all.FreeMemory(i, kind):
				return nil, false
			case more > 0:
				rest.Memory = append(rest.Memory, place.Block{Kind: kind, NUMAs: 1 << uint(i), Bytes: more})
			}
		}
	}
	rest.CPUs = idset.Of(cpus...)
	for _, r := range m.Resources() {
		d, ok := unknownDevices(r.Name, shown, held, all)
		if !ok {
			return nil, false
		}
		if len(d.IDs) > 0 {
			rest.Devices = append(rest.Devices, d)
		}
	}
	out = slices.Clone(pods)
	if !rest.Empty() {
		out = append(out, state.Entry{Source: state.Counted, Holdings: []place.Holding{rest}})
	}
	return out, true
}

// unknownDevices returns devices of a resource for the part of held that does not come from known pods. In the usage
// shown, the known pods hold what a report shows of them; in the usage all, they also hold what they keep from their
// init containers. The returned devices are free in the usage all. ok is false if too few are free, or if the known
// pods hold more than held has.
func unknownDevices(resource string, shown, held, all *place.Usage) (out place.DeviceBlock, ok bool) {
	more := map[topo.Mask]int{}
	for _, d := range shown.FreeDevices(resource) {
		more[d.NUMAs]++
	}
	for _, d := range held.FreeDevices(resource) {
		more[d.NUMAs]--
	}
	out.Resource = resource
	for _, d := range all.FreeDevices(resource) {
		if more[d.NUMAs] > 0 {
			more[d.NUMAs]--
			out.IDs = append(out.IDs, d.ID)
			out.NUMAs |= d.NUMAs
		}
	}
	for _, n := range more {
		if n != 0 {
			return out, false
		}
	}
	return out, true
}
