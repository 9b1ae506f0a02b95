package estimate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file counts what pods keep from their init containers.
//
// A kubelet takes back what init containers held and other containers do not use. It does so when the pod ends
// (cpumanager, devicemanager), or when the next container starts (memorymanager, AddContainer). Its podresources
// service does not list ordinary init containers, so an exporter that uses this service shows what they hold as free.
// If the holdings of a pod were predicted, it is known what the pod keeps, and where. For any other counted pod, only
// the amount is known. The kept part may be on any NUMA node with room, so the node has one possible state for each.

// maxKept bounds the states of a node that differ in where kept parts are. Beyond it, the smallest parts count on
// every NUMA node where they may be, and the node is crowded.
const maxKept = 8

// lasting returns a pod's holdings without the memory that the memory manager has taken back after its init
// containers.
func (n *Node) lasting(uid string, hs []place.Holding) []place.Holding {
	if !n.started[uid] {
		return hs
	}
	return Started(hs)
}

// Started returns what a pod holds after its init containers have ended. They give back their memory, and keep their
// CPUs and devices for the containers after them. It does not change its argument.
func Started(hs []place.Holding) []place.Holding {
	out := slices.Clone(hs)
	for i := range out {
		if out[i].Kind == place.Init {
			out[i].Memory = nil
		}
	}
	return slices.DeleteFunc(out, func(h place.Holding) bool { return h.Empty() })
}

// leftovers returns, for each init container of a pod, its memory, and the CPUs and devices that no app container,
// sidecar or earlier init container holds.
func leftovers(hs []place.Holding) (out []place.Holding) {
	var cpus idset.Set[idset.CPU]
	devices := map[[2]string]bool{}
	note := func(h place.Holding) {
		cpus = cpus.Union(h.CPUs)
		for _, d := range h.Devices {
			for _, id := range d.IDs {
				devices[[2]string{d.Resource, id}] = true
			}
		}
	}
	for _, h := range hs {
		if h.Kind != place.Init {
			note(h)
		}
	}
	for _, h := range hs {
		if h.Kind != place.Init {
			continue
		}
		own := place.Holding{Container: h.Container, Kind: place.Init, CPUs: h.CPUs.Minus(cpus)}
		own.Memory = slices.DeleteFunc(slices.Clone(h.Memory), func(b place.Block) bool { return b.Bytes == 0 })
		for _, d := range h.Devices {
			d.IDs = slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return devices[[2]string{d.Resource, id}] })
			if len(d.IDs) > 0 {
				own.Devices = append(own.Devices, d)
			}
		}
		note(h)
		if !own.Empty() {
			out = append(out, own)
		}
	}
	return out
}

// part is what a pod keeps from its init containers on one NUMA node.
type part struct {
	id        state.PodID
	container string
	takes     quantities
	// beside is the amount that reports show of the pod, if all of it is certainly on the same NUMA node as the part;
	// otherwise nil.
	beside quantities
	// vague: the pod may keep less than this, or keep it on several NUMA nodes.
	vague bool
}

// kept returns the parts that pods keep at unknown places, largest first.
func (n *Node) kept() (out []part) {
	if n.whole {
		return nil
	}
	for uid, c := range n.counted {
		if n.ended[uid] || c.spec == nil || !hasInits(c.spec) || n.base.entry(uid) >= 0 {
			continue
		}
		hs, ok := n.takes(c.spec)
		if !ok {
			continue
		}
		k := part{id: c.id}
		if n.together(c.spec, hs) {
			if keeps := leftovers(n.lasting(uid, hs)); len(keeps) > 0 {
				k.container, k.takes, k.beside = keeps[0].Container, quantitiesOf(keeps), quantitiesOf(n.shown(hs))
				out = append(out, k)
			}
			continue
		}
		hs, k.vague = unshared(c.spec, n.lasting(uid, hs))
		k.vague = k.vague || n.wide(c.spec)
		for _, h := range leftovers(hs) {
			k.container, k.takes = h.Container, quantitiesOf([]place.Holding{h})
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(x, y part) int {
		return cmp.Or(cmp.Compare(y.takes["cpu"], x.takes["cpu"]), cmp.Compare(y.takes[topo.Memory], x.takes[topo.Memory]),
			strings.Compare(x.id.UID, y.id.UID), strings.Compare(x.container, y.container))
	})
	return out
}

func hasInits(p *place.Pod) bool {
	return slices.ContainsFunc(p.Containers, func(c place.Container) bool { return c.Kind == place.Init })
}

// unshared returns the holdings of a pod for the case that its containers got memory on different NUMA nodes, so that
// they share none. changed reports whether that makes a difference. CPUs and devices are shared in any case: those
// that one container leaves tie the next container to their NUMA nodes.
func unshared(p *place.Pod, hs []place.Holding) (out []place.Holding, changed bool) {
	out = slices.Clone(hs)
	for i, h := range out {
		at := slices.IndexFunc(p.Containers, func(c place.Container) bool { return c.Name == h.Container })
		if h.Kind != place.Init || at < 0 {
			continue
		}
		out[i].Memory = slices.Clone(h.Memory)
		for j, b := range h.Memory {
			for _, want := range p.Containers[at].Memory {
				if want.Kind == b.Kind && want.Bytes != b.Bytes {
					out[i].Memory[j].Bytes, changed = want.Bytes, true
				}
			}
		}
	}
	return out, changed
}

// placement is a state of the node with parts assigned to NUMA nodes. The field rest is the node's base without some
// amounts of unknown pods: for each assigned part, without the amounts in the part's field beside, which reports show
// on the same NUMA node. These amounts cannot lie beside the part of another pod, too.
type placement struct{ state, rest State }

// withInits returns the possible states of the node, given what pods keep from their init containers. Sure is false
// if there may be more states.
func (n *Node) withInits() States {
	placements, sure := []placement{{n.base, n.base}}, true
	for _, k := range n.kept() {
		next := k.onAny(placements)
		if len(next) == 0 && k.beside != nil {
			k.beside = nil // contrary to the rules, the amounts show the pod on no single NUMA node
			next = k.onAny(placements)
		}
		switch {
		case len(next) == 0:
			next, sure = mapStates(placements, k.spread), false
		case len(next) > maxKept:
			next, sure = mapStates(placements, k.onAll), false
		}
		placements, sure = next, sure && !k.vague
	}
	out := States{Sure: sure}
	for _, l := range placements {
		out.All = append(out.All, l.state)
	}
	return out
}

// mapStates returns the placements with do applied to the state of each.
func mapStates(placements []placement, do func(State) State) []placement {
	out := slices.Clone(placements)
	for i := range out {
		out[i].state = do(out[i].state)
	}
	return out
}

// onAny returns, for each placement and each NUMA node that has room for the part, the placement with the part there.
// Equal results are merged.
func (k *part) onAny(placements []placement) (out []placement) {
	seen := map[string]bool{}
	for _, l := range placements {
		for i := range l.state.Usage.Machine.NUMAs() {
			var ok bool
			next := placement{rest: l.rest}
			if k.beside != nil {
				if next.rest, ok = l.rest.without(i, k.beside); !ok {
					continue
				}
			}
			if next.state, ok = k.on(l.state, i); !ok {
				continue
			}
			if key := next.state.key() + next.rest.key(); !seen[key] {
				seen[key], out = true, append(out, next)
			}
		}
	}
	return out
}

// on returns the state with the part on one NUMA node; ok is false if there is no room.
func (k *part) on(s State, i int) (out State, ok bool) {
	h, missing := k.take(s.Usage, i, k.takes)
	if len(missing) > 0 {
		return s, false
	}
	return s.hold(k.id, h), true
}

// onAll returns the state with the part on every NUMA node that has room for it.
func (k *part) onAll(s State) State {
	for i := range s.Usage.Machine.NUMAs() {
		s, _ = k.on(s, i)
	}
	return s
}

// spread returns the state with the part on as many NUMA nodes as it needs, as far as there is room.
func (k *part) spread(s State) State {
	missing := k.takes
	for i := range s.Usage.Machine.NUMAs() {
		var h place.Holding
		if h, missing = k.take(s.Usage, i, missing); !h.Empty() {
			s = s.hold(k.id, h)
		}
	}
	return s
}

// take returns a holding with as much of the quantities as the NUMA node at position i has free, and what is missing.
func (k *part) take(u *place.Usage, i int, q quantities) (h place.Holding, missing quantities) {
	h, missing = place.Holding{Container: k.container, Kind: place.Init}, maps.Clone(q)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		want, got := q[name], int64(0)
		if name == "cpu" {
			cpus := u.Machine.NUMAs()[i].CPUs.And(u.FreeCPUs()).List()
			got = min(want, int64(len(cpus)))
			h.CPUs = idset.Of(cpus[:got]...)
		} else if slices.Contains(u.Kinds(), name) {
			if got = min(want, u.FreeMemory(i, name)); got > 0 {
				h.Memory = append(h.Memory, place.Block{Kind: name, NUMAs: 1 << uint(i), Bytes: got})
			}
		} else {
			d := place.DeviceBlock{Resource: name}
			for _, free := range u.FreeDevices(name) {
				if free.NUMAs.Has(i) && got < want {
					d.IDs, d.NUMAs, got = append(d.IDs, free.ID), d.NUMAs|free.NUMAs, got+1
				}
			}
			if got > 0 {
				h.Devices = append(h.Devices, d)
			}
		}
		if missing[name] -= got; missing[name] == 0 {
			delete(missing, name)
		}
	}
	return h, missing
}
