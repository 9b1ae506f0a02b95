package estimate

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// quantities are amounts of a whole node by resource: whole CPUs for "cpu", bytes for a kind of memory, and devices
// for other resources. Resources with amount 0 are left out.
type quantities map[string]int64

// quantitiesOf returns what holdings take of a whole node. CPUs and devices that an init container leaves to later
// containers count once.
func quantitiesOf(hs []place.Holding) quantities {
	out := quantities{}
	var cpus idset.Set[idset.CPU]
	devices := map[[2]string]bool{}
	for _, h := range hs {
		cpus = cpus.Union(h.CPUs)
		for _, m := range h.Memory {
			out.add(quantities{m.Kind: m.Bytes}, 1)
		}
		for _, d := range h.Devices {
			for _, id := range d.IDs {
				if key := [2]string{d.Resource, id}; !devices[key] {
					devices[key] = true
					out.add(quantities{d.Resource: 1}, 1)
				}
			}
		}
	}
	out.add(quantities{"cpu": int64(cpus.Len())}, 1)
	return out
}

// add adds the quantities in other to q, multiplied by times.
func (q quantities) add(other quantities, times int64) {
	for k, v := range other {
		if q[k] += times * v; q[k] == 0 {
			delete(q, k)
		}
	}
}

// plus returns a new sum of q and of other multiplied by times.
func (q quantities) plus(other quantities, times int64) quantities {
	out := quantities{}
	maps.Copy(out, q)
	out.add(other, times)
	return out
}

// within reports whether q has no more of any resource than limit has.
func (q quantities) within(limit quantities) bool {
	for k, v := range q {
		if v > limit[k] {
			return false
		}
	}
	return true
}

// frame computes what a pod takes of a node, and which part of that the amounts show. It never changes.
type frame struct {
	// empty is the machine without pods. noPolicy is the empty machine without a topology policy.
	empty, noPolicy *place.Usage
	// whole: the amounts also contain what pods keep from their init containers; see state.Amounts.
	whole bool
}

// next returns the frame of the next report. It reuses the usages of f, the frame of the last report, if the machine
// and its rules are the same.
func (f frame) next(empty *place.Usage, whole bool) frame {
	if f.empty != empty {
		r := empty.Rules
		r.Topology = place.TopologyRules{}
		f.empty, f.noPolicy = empty, place.NewUsage(empty.Machine, r)
	}
	f.whole = whole
	return f
}

// takes returns what a pod takes of the whole node, without regard to NUMA nodes. ok is false if p is nil, because
// its requests are unknown, or if the machine cannot hold the pod.
func (f *frame) takes(p *place.Pod) (hs []place.Holding, ok bool) {
	if p == nil {
		return nil, false
	}
	v := place.Place(f.noPolicy, p)
	return v.Holdings, v.Fits()
}

// shown returns the part of the holdings that the amounts show. Only whole amounts show what init containers hold.
func (f *frame) shown(hs []place.Holding) []place.Holding {
	if f.whole {
		return hs
	}
	return slices.DeleteFunc(slices.Clone(hs), func(h place.Holding) bool { return h.Kind == place.Init })
}

// together reports whether everything that a pod holds is certainly on one NUMA node. The policy must be
// single-numa-node, and one of two conditions must hold. Either the kubelet aligns the pod as a whole. Or every
// container has CPUs, and all containers but one are init containers: each container then reuses CPUs of the init
// containers before it, and so gets their NUMA node.
func (f *frame) together(p *place.Pod, hs []place.Holding) bool {
	t := f.empty.Rules.Topology
	if t.Policy != place.SingleNUMA {
		return false
	}
	notInit := 0
	for _, c := range p.Containers {
		if c.Kind != place.Init {
			notInit++
		}
	}
	noCPUs := slices.ContainsFunc(hs, func(h place.Holding) bool { return h.CPUs.Empty() })
	return t.Scope == place.PerPod || notInit == 1 && !noCPUs && len(hs) == len(p.Containers)
}

// parts returns what the amounts show of a pod's holdings, divided into parts: the pod may have each part on another
// NUMA node. It does not divide the holdings if the amounts are whole: they include init containers, which have CPUs
// and devices in common with later containers.
func (f *frame) parts(p *place.Pod, hs []place.Holding) (out []quantities) {
	hs = f.shown(hs)
	if f.together(p, hs) || f.whole {
		return []quantities{quantitiesOf(hs)}
	}
	for _, h := range hs {
		out = append(out, quantitiesOf([]place.Holding{h}))
	}
	return out
}

// wide reports whether a container of a pod may hold parts of several NUMA nodes. It is false if the policy is
// single-numa-node. It is also false under restricted if each container fits on one NUMA node of the empty machine:
// the preferred number of NUMA nodes does not depend on what is free.
func (f *frame) wide(p *place.Pod) bool {
	switch f.empty.Rules.Topology.Policy {
	case place.SingleNUMA:
		return false
	case place.Restricted:
		v := place.Place(f.empty, p)
		return !v.Fits() || slices.ContainsFunc(v.Holdings, func(h place.Holding) bool {
			return h.NUMAs(f.empty.Machine).Len() > 1
		})
	}
	return true
}

// certain reports whether it is certain how much of every NUMA node a pod takes: its options differ at most in
// made-up ids.
func (f *frame) certain(p *Pod) bool {
	if p.Unknown || p.More || len(p.Options) == 0 {
		return false
	}
	return !slices.ContainsFunc(p.Options[1:], func(o []place.Holding) bool {
		return !sameAmounts(f.empty.Machine, p.Options[0], o)
	})
}

// sameAmounts reports whether two lists of holdings take equal amounts of every NUMA node, container by container.
func sameAmounts(m *topo.Machine, a, b []place.Holding) bool {
	return slices.EqualFunc(a, b, func(x, y place.Holding) bool {
		return slices.EqualFunc(x.Devices, y.Devices, func(d, e place.DeviceBlock) bool {
			return d.Resource == e.Resource && d.NUMAs == e.NUMAs && len(d.IDs) == len(e.IDs) &&
				(d.NUMAs.Len() <= 1 || slices.Equal(d.IDs, e.IDs))
		}) && slices.Equal(x.Memory, y.Memory) && x.CPUs.Len() == y.CPUs.Len() &&
			!slices.ContainsFunc(m.NUMAs(), func(n topo.NUMA) bool { return n.CPUs.AndLen(x.CPUs) != n.CPUs.AndLen(y.CPUs) })
	})
}
