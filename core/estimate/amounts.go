package estimate

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Amounts is what a node says of its holdings. The ids of CPUs and devices are made up: they count, NUMA node by NUMA
// node, and mean nothing else.
type Amounts struct {
	// Held is what is held, by anybody.
	Held []place.Holding
	// Whole: Held contains what pods keep from their init containers, too. The kubelet's podresources service does not
	// list that, and an exporter that asks this service takes it for free.
	Whole bool
	// Counts says of the UIDs of pods whether Held contains them; nil where the node does not say which pods it has seen.
	Counts map[string]bool
	// Either are groups of UIDs about which Counts does not decide: Held contains exactly one pod of each group. The node
	// knows pods by name, and a name may be used again.
	Either [][]string
	// Seen are UIDs of pods that were admitted so long ago that Held contains them, unless the exporter has stopped.
	// Past are UIDs of pods that ended so long ago that Held does not contain them.
	Seen, Past map[string]bool
	// Again: the node has reported nothing new. Seen, Past, Counts and Either say what is known by now of its last report.
	Again bool
}

// quantities are amounts of a node as a whole by resource; "cpu" counts CPUs. Resources with 0 are left out.
type quantities map[string]int64

// quantitiesOf returns what holdings take of a node as a whole. CPUs and devices that an init container leaves to
// others count once.
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

// add adds other so many times.
func (q quantities) add(other quantities, times int64) {
	for k, v := range other {
		if q[k] += times * v; q[k] == 0 {
			delete(q, k)
		}
	}
}

// plus returns the sum of both.
func (q quantities) plus(other quantities, times int64) quantities {
	out := maps.Clone(q)
	out.add(other, times)
	return out
}

// within reports whether no quantity is above that of most.
func (q quantities) within(most quantities) bool {
	for k, v := range q {
		if v > most[k] {
			return false
		}
	}
	return true
}

// frame is what decides what a pod takes of a node, and what of that the amounts show. It never changes.
type frame struct {
	// empty is the machine with nothing on it, loose the same without a topology policy.
	empty, loose *place.Usage
	// whole is Amounts.Whole.
	whole bool
}

// of returns the frame of a report, given the one of the report before.
func (f frame) of(empty *place.Usage, whole bool) frame {
	if f.empty != empty {
		r := empty.Rules
		r.Topology = place.TopologyRules{}
		f.empty, f.loose = empty, place.NewUsage(empty.Machine, r)
	}
	f.whole = whole
	return f
}

// takes returns what a pod takes of the node as a whole, wherever that is. ok is false where what the pod asked for is
// not known, and where the machine cannot hold it.
func (f *frame) takes(p *place.Pod) (hs []place.Holding, ok bool) {
	if p == nil {
		return nil, false
	}
	v := place.Place(f.loose, p)
	return v.Holdings, v.Fits()
}

// shown returns what of the holdings of pods the amounts show.
func (f *frame) shown(hs []place.Holding) []place.Holding {
	if f.whole {
		return hs
	}
	return slices.DeleteFunc(slices.Clone(hs), func(h place.Holding) bool { return h.Kind == place.Init })
}

// together reports whether all that a pod holds is on one NUMA node: the kubelet aligns the pod as a whole, or CPUs tie
// each of its containers to the NUMA node of those before.
func (f *frame) together(p *place.Pod, hs []place.Holding) bool {
	t := f.empty.Rules.Topology
	if t.Policy != place.SingleNUMA {
		return false
	}
	others := 0
	for _, c := range p.Containers {
		if c.Kind != place.Init {
			others++
		}
	}
	bare := slices.ContainsFunc(hs, func(h place.Holding) bool { return h.CPUs.Empty() })
	return t.Scope == place.PerPod || others == 1 && !bare && len(hs) == len(p.Containers)
}

// parts returns what the amounts show of a pod's holdings, divided into what is on one NUMA node together.
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

// wide reports whether a container of a pod may hold parts of several NUMA nodes. One NUMA node is certain where the
// policy says so, or where the preferred width is one, which does not depend on what is free.
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

// certain reports whether it is known how much of every NUMA node a pod takes: its options differ in made-up ids at
// most.
func (f *frame) certain(p *Pod) bool {
	if p.Unknown || p.More || len(p.Options) == 0 {
		return false
	}
	return !slices.ContainsFunc(p.Options[1:], func(o []place.Holding) bool {
		return !level(f.empty.Machine, p.Options[0], o)
	})
}

// level reports whether two lists of holdings take the same of every NUMA node, container by container.
func level(m *topo.Machine, a, b []place.Holding) bool {
	return slices.EqualFunc(a, b, func(x, y place.Holding) bool {
		return slices.EqualFunc(x.Devices, y.Devices, func(d, e place.DeviceBlock) bool {
			return d.Resource == e.Resource && d.NUMAs == e.NUMAs && len(d.IDs) == len(e.IDs) &&
				(d.NUMAs.Len() <= 1 || slices.Equal(d.IDs, e.IDs))
		}) && slices.Equal(x.Memory, y.Memory) && x.CPUs.Len() == y.CPUs.Len() &&
			!slices.ContainsFunc(m.NUMAs(), func(n topo.NUMA) bool { return n.CPUs.AndLen(x.CPUs) != n.CPUs.AndLen(y.CPUs) })
	})
}
