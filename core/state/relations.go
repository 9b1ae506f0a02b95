package state

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file judges demands about other pods: on one NUMA node with some, on another NUMA node than others.

// Relations are the keys by which a pod is related to others; see [place.Demand].
type Relations struct{ Together, Apart string }

// RelationsOf returns the keys of a demand.
func RelationsOf(d place.Demand) Relations { return Relations{d.Together, d.Apart} }

// related returns the NUMA nodes of the pods in this state that have the demand's keys, by what they hold. The pod self
// does not count.
func (n *Node) related(self string, d place.Demand) (together, apart topo.Mask) {
	if !d.Relates() || len(n.Basis.Relations) == 0 {
		return 0, 0
	}
	for _, e := range n.Entries {
		r, ok := n.Basis.Relations[e.Pod.UID]
		if !ok || e.Pod.UID == self {
			continue
		}
		on, _ := place.Tied(n.Machine, e.Holdings)
		if d.Together != "" && r.Together == d.Together {
			together |= on
		}
		if d.Apart != "" && r.Apart == d.Apart {
			apart |= on
		}
	}
	return together, apart
}

// Together reports whether a pod with a key of [place.Demand.Together] holds something on the node. n may be nil.
func (n *Node) Together(key string) bool {
	return n != nil && key != "" && len(n.Basis.Relations) > 0 && slices.ContainsFunc(n.Entries, func(e Entry) bool {
		return n.Basis.Relations[e.Pod.UID].Together == key
	})
}

// Relate returns the verdict with the demand about other pods taken into account, in this state alone: a refusal if
// what the pod self would hold is not where it has to be. It returns a refusal unchanged.
func (n *Node) Relate(self string, v place.Verdict, d place.Demand) place.Verdict {
	if !v.Fits() || !d.Relates() {
		return v
	}
	refuse := func(r place.Reason) place.Verdict {
		return place.Verdict{Refusal: place.TopologyAffinityError, Reasons: []place.Reason{r}}
	}
	own, drawn := place.Tied(n.Machine, v.Holdings)
	if n.Rules.Arbiter == place.ByAgent {
		for _, h := range v.Holdings {
			if len(h.Devices) > 0 { // the device manager chooses them, and the agent the rest when the pod arrives
				drawn = h.Devices[0].Resource
			}
		}
	}
	ids := func(m topo.Mask) string { return idset.Of(n.Machine.IDs(m)...).String() }
	together, apart := n.related(self, d)
	switch {
	case own == 0:
		return refuse(d.Reason(place.Reason{Code: place.Untied}))
	case drawn != "":
		return refuse(d.Reason(place.Reason{Code: place.Drawn, With: drawn}))
	case d.Together != "" && (own.Len() > 1 || together != 0 && own != together):
		r := place.Reason{Code: place.NotTogether, Resource: ids(own)}
		if together != 0 {
			r.With = ids(together)
		}
		return refuse(r)
	case own&apart != 0:
		return refuse(place.Reason{Code: place.NotApart, Resource: ids(own), With: ids(apart)})
	}
	return v
}

// roomFor returns the usage in which a pod with a demand is placed. Where the agent is the arbiter, it leaves only the
// NUMA nodes on which the demand about other pods is met.
func (n *Node) roomFor(p *place.Pod, d place.Demand) *place.Usage {
	if !d.Relates() || n.Rules.Arbiter != place.ByAgent {
		return n.Usage
	}
	together, apart := n.related("", d)
	left := n.Machine.All() &^ apart
	if together != 0 {
		left &= together
	}
	if d.Together != "" && together == 0 {
		for i := range n.Machine.NUMAs() {
			if !left.Has(i) {
				continue
			}
			if one := n.Usage.On(1 << uint(i)); place.Fits(one, p) {
				return one
			}
		}
	}
	return n.Usage.On(left)
}

// Join is [Node.With] for a pod with a demand: where the agent is the arbiter, it gets what the demand leaves it, and
// later pods are related to it by the keys of the demand. The demand itself is not judged.
func (n *Node) Join(id PodID, p *place.Pod, d place.Demand) (out *Node, ok bool) {
	if !d.Relates() {
		return n.With(id, p)
	}
	v := place.Place(n.roomFor(p, d), p)
	if !v.Fits() {
		return n, false
	}
	out = n.having(id, v)
	out.Basis.Relations = maps.Clone(n.Basis.Relations)
	if out.Basis.Relations == nil {
		out.Basis.Relations = map[string]Relations{}
	}
	out.Basis.Relations[id.UID] = RelationsOf(d)
	out.Others = each(n.Others, func(o *Node) *Node { w, _ := o.Join(id, p, d); return w })
	return out, true
}
