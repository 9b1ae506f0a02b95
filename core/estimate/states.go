package estimate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// State is one state in which the node may be. It never changes.
type State struct {
	Entries []Entry
	Usage   *place.Usage
}

// States are states in which the node may be, the likeliest first; there is at least one.
type States struct {
	All []State
	// Sure: there are no others, but for those that Crowded stands for.
	Sure bool
	// Crowded: what pods keep of their init containers may be in more places than All says, and counts in all of them, or
	// the amounts contain pods that are charged beside them. With more free than is counted, a pod of several containers
	// may get something else than is predicted.
	Crowded bool
}

// maxMoved bounds the ended pods whose part of the amounts is not known; with more of them, the next report is waited
// for.
const maxMoved = 3

// States returns the states in which the node may be without the bound pods, at most so many: pods keep what no report
// shows, and pods have left whose part of the amounts is not known. bound says whether any pod is bound that the
// amounts do not contain: what it gets depends on states that are not followed.
func (n *Node) States(most int, bound bool) States {
	out := n.withInits()
	n.incomplete = !out.Sure
	out.Crowded = n.incomplete || n.doubled
	out.Sure = out.Sure || !bound
	if len(n.moved) > maxMoved {
		out.Sure = false
		return out
	}
	for _, c := range n.moved {
		hs, ok := n.takes(c.spec)
		if !ok {
			continue // it never held anything that is known
		}
		for _, part := range n.parts(c.spec, hs) {
			next := without(out.All, part)
			if len(next) == 0 || len(next) > most {
				out.Sure = false
				return out
			}
			out.All = next
		}
	}
	return out
}

// Unplaced are the pods in the amounts of which it is not known where they are. They never change.
type Unplaced struct {
	frame
	specs map[string]*place.Pod // by UID; nil where it is not known what the pod asked for
}

// Unplaced returns the node's unplaced pods, nil if the amounts contain no pod.
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

// Has reports whether a pod is among them. Nil has none.
func (u *Unplaced) Has(uid string) bool {
	if u == nil {
		return false
	}
	_, is := u.specs[uid]
	return is
}

// Without returns the states in which the node may be without some unplaced pods: what each of their containers held
// was on any one of the NUMA nodes that hold as much. sure is false where there are more than most, where a container
// may have been on several NUMA nodes, and where it is not known what it held.
func (u *Unplaced) Without(states []State, uids []string, most int) (out []State, sure bool) {
	sure = true
	for _, uid := range uids {
		p, is := u.specs[uid]
		if !is {
			continue
		}
		hs, _ := u.takes(p)
		if p == nil {
			sure = false
			continue
		}
		for _, part := range u.parts(p, hs) {
			next := without(states, part)
			if len(next) == 0 || len(next) > most {
				sure = false
				break
			}
			states = next
		}
	}
	return states, sure
}

// without returns the states without amounts that were on any one NUMA node. Equal states are one.
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
	return slices.IndexFunc(s.Entries, func(e Entry) bool { return e.Pod.UID == uid })
}

// hold returns the state in which a pod holds more.
func (s State) hold(id PodID, h place.Holding) State {
	out := State{Entries: slices.Clone(s.Entries), Usage: s.Usage.Hold(h)}
	at := out.entry(id.UID)
	if at < 0 {
		at, out.Entries = len(out.Entries), append(out.Entries, Entry{Pod: id})
	}
	out.Entries[at].Holdings = append(slices.Clone(out.Entries[at].Holdings), h)
	return out
}

// without returns the state without amounts of what nobody is known to hold on one NUMA node; ok is false where that is
// less.
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
	left := maps.Clone(q)
	delete(left, "cpu")
	for k, b := range rest.Memory {
		if b.NUMAs == 1<<uint(i) && b.Bytes >= left[b.Kind] {
			rest.Memory[k].Bytes -= left[b.Kind]
			delete(left, b.Kind)
		}
	}
	// A block of 0 bytes would tie its NUMA node to a group all the same.
	rest.Memory = slices.DeleteFunc(rest.Memory, func(b place.Block) bool { return b.Bytes == 0 })
	for k, d := range rest.Devices {
		mine := slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return !isOn(m, d.Resource, id, i) })
		if want := left[d.Resource]; int64(len(mine)) >= want {
			mine = mine[:want]
			given := func(id string) bool { return slices.Contains(mine, id) }
			rest.Devices[k].IDs = slices.DeleteFunc(slices.Clone(d.IDs), given)
			delete(left, d.Resource)
		}
	}
	if len(left) > 0 {
		return out, false
	}
	out.Entries = slices.Clone(s.Entries)
	out.Entries[at].Holdings = []place.Holding{rest}
	out.Usage = s.Usage.Empty().Hold(holdings(out.Entries)...)
	return out, true
}

// isOn reports whether a device touches the NUMA node at a position.
func isOn(m *topo.Machine, resource, id string, numa int) bool {
	r, _ := m.Resource(resource)
	return r.Device(id).NUMAs.Has(numa)
}

// key is equal for states of one machine that have as much free of every NUMA node.
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
