package estimate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// State is one possible state of the node. It never changes.
type State struct {
	Entries []state.Entry
	Usage   *place.Usage
}

// States are the possible states of the node, likeliest first; there is at least one.
type States struct {
	All []State
	// Sure: there are no other states, except for those that Crowded describes.
	Sure bool
	// Crowded: more may be free than is counted, so a pod of several containers may get something else than is
	// predicted. What pods keep from their init containers may be in more places than All shows, and counts in all of
	// them. Or the amounts contain pods that are also counted separately, or that ended without giving back their
	// holdings.
	Crowded bool
}

// maxMoved bounds the ended pods whose part of the amounts is unknown. With more of them, the result is not sure
// until the next report.
const maxMoved = 3

// States returns the possible states of the node without the bound pods. limit, at least maxKept, bounds their number.
// There are several for two reasons. Some pods keep parts that no report shows, and for some ended pods it is unknown
// which part of the amounts they gave back. bound: some bound pod is not in the amounts, so what this pod gets may
// depend on states that are not followed. If bound is false and only places of kept parts are not followed, Crowded is
// set and Sure stays true. States also remembers for the next report whether it followed all places of kept parts.
func (n *Node) States(limit int, bound bool) States {
	out := n.withInits()
	n.incomplete = !out.Sure
	out.Crowded = n.incomplete || n.doubled || len(n.lost) > 0
	out.Sure = out.Sure || !bound
	if len(n.moved) > maxMoved {
		out.Sure = false
		return out
	}
	for _, c := range n.moved {
		hs, ok := n.takes(c.spec)
		if !ok {
			continue // the pod's requests are unknown, so it is unknown what it gave back
		}
		before := out.All
		for _, part := range n.parts(c.spec, hs) {
			next := without(out.All, part)
			if len(next) == 0 || len(next) > limit {
				out.Sure = false
				return out
			}
			out.All = next
		}
		// A container that was on several NUMA nodes gave back less on each than one of these states shows.
		if n.wide(c.spec) {
			if out.All = append(slices.Clip(out.All), before...); len(out.All) > limit {
				out.Sure, out.All = false, out.All[:limit]
			}
		}
	}
	return out
}

// Unplaced has the pods in the amounts whose NUMA nodes are unknown. It never changes.
type Unplaced struct {
	frame
	specs map[string]*place.Pod // by UID; nil if the pod's requests are unknown
}

// Unplaced returns the node's unplaced pods, or nil if the amounts contain no pod.
func (n *Node) Unplaced() *Unplaced {
	if len(n.counted) == 0 {
		return nil
	}
	out := &Unplaced{frame: n.frame, specs: map[string]*place.Pod{}}
	for uid, c := range n.counted {
		if n.base.entry(uid) < 0 && !n.ended[uid] {
			out.specs[uid] = c.spec
		}
	}
	return out
}

// Has reports whether a pod is one of the unplaced pods. A nil Unplaced has none.
func (u *Unplaced) Has(uid string) bool {
	if u == nil {
		return false
	}
	_, ok := u.specs[uid]
	return ok
}

// Without returns the possible states without some unplaced pods; it ignores UIDs of other pods. It assumes that what
// a container held was on one NUMA node, and returns a state for each NUMA node on which unknown pods hold as much.
// sure is false if there would be more states than limit, if unknown pods hold as much on no NUMA node, or if a pod's
// requests are unknown.
func (u *Unplaced) Without(states []State, uids []string, limit int) (out []State, sure bool) {
	sure = true
	for _, uid := range uids {
		p, ok := u.specs[uid]
		if !ok {
			continue
		}
		hs, _ := u.takes(p)
		if p == nil {
			sure = false
			continue
		}
		for _, part := range u.parts(p, hs) {
			next := without(states, part)
			if len(next) == 0 || len(next) > limit {
				sure = false
				break
			}
			states = next
		}
	}
	return states, sure
}

// without returns the states that follow when unknown pods give back the quantities q: one for each state and each
// NUMA node on which they hold as much. Equal states are merged.
func without(states []State, q quantities) (out []State) {
	seen := map[string]bool{}
	for _, s := range states {
		for i := range s.Usage.Machine.NUMAs() {
			next, ok := s.without(i, q)
			if !ok {
				continue
			}
			if key := next.key(); !seen[key] {
				seen[key], out = true, append(out, next)
			}
		}
	}
	return out
}

// entry returns the position of a pod's entry, or -1.
func (s State) entry(uid string) int {
	return slices.IndexFunc(s.Entries, func(e state.Entry) bool { return e.Pod.UID == uid })
}

// hold returns the state with one more holding of a pod.
func (s State) hold(id state.PodID, h place.Holding) State {
	out := State{Entries: slices.Clone(s.Entries), Usage: s.Usage.Hold(h)}
	at := out.entry(id.UID)
	if at < 0 {
		at, out.Entries = len(out.Entries), append(out.Entries, state.Entry{Pod: id, Source: state.Counted})
	}
	out.Entries[at].Holdings = append(slices.Clone(out.Entries[at].Holdings), h)
	return out
}

// without returns the state in which unknown pods hold q less on the NUMA node at position i; ok is false if they
// hold less than q there.
func (s State) without(i int, q quantities) (out State, ok bool) {
	at := s.entry("")
	if at < 0 {
		return s, len(q) == 0
	}
	m, rest := s.Usage.Machine, s.Entries[at].Holdings[0]
	cpus := m.NUMAs()[i].CPUs.And(rest.CPUs).List()
	if int64(len(cpus)) < q["cpu"] {
		return out, false
	}
	rest.CPUs = rest.CPUs.Minus(idset.Of(cpus[:q["cpu"]]...))
	rest.Memory, rest.Devices = slices.Clone(rest.Memory), slices.Clone(rest.Devices)
	unreturned := maps.Clone(q)
	delete(unreturned, "cpu")
	for k, b := range rest.Memory {
		if b.NUMAs == 1<<uint(i) && b.Bytes >= unreturned[b.Kind] {
			rest.Memory[k].Bytes -= unreturned[b.Kind]
			delete(unreturned, b.Kind)
		}
	}
	// A block of 0 bytes would still tie its NUMA node to a group.
	rest.Memory = slices.DeleteFunc(rest.Memory, func(b place.Block) bool { return b.Bytes == 0 })
	for k, d := range rest.Devices {
		here := slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return !isOn(m, d.Resource, id, i) })
		if want := unreturned[d.Resource]; int64(len(here)) >= want {
			here = here[:want]
			given := func(id string) bool { return slices.Contains(here, id) }
			rest.Devices[k].IDs = slices.DeleteFunc(slices.Clone(d.IDs), given)
			delete(unreturned, d.Resource)
		}
	}
	if len(unreturned) > 0 {
		return out, false
	}
	out.Entries = slices.Clone(s.Entries)
	out.Entries[at].Holdings = []place.Holding{rest}
	out.Usage = s.Usage.Empty().Hold(state.Holdings(out.Entries)...)
	return out, true
}

// isOn reports whether a device touches the NUMA node at a position.
func isOn(m *topo.Machine, resource, id string, numa int) bool {
	r, _ := m.Resource(resource)
	return r.Device(id).NUMAs.Has(numa)
}

// key returns a text that is the same for states of one machine that have equal free amounts on every NUMA node.
func (s State) key() string {
	var b strings.Builder
	for i, n := range s.Usage.Machine.NUMAs() {
		fmt.Fprintf(&b, "%d", n.CPUs.AndLen(s.Usage.FreeCPUs()))
		for _, kind := range s.Usage.Kinds() {
			fmt.Fprintf(&b, ",%d", s.Usage.FreeMemory(i, kind))
		}
		for k := range s.Usage.Machine.Resources() {
			fmt.Fprintf(&b, ",%d", s.Usage.FreeDevicesOn(k, 1<<uint(i)))
		}
		b.WriteByte(';')
	}
	return b.String()
}
