package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file counts what pods on coarse nodes keep from their init containers.
//
// A kubelet gives a pod back what its init containers held, and the other containers do not use, when the
// pod ends (cpumanager, devicemanager), or when the next container starts (memorymanager, AddContainer).
// Its podresources service does not list ordinary init containers, so who reports by that shows all this
// as free. Where a pod was predicted, it is known what it keeps, and where. Of another pod that is counted
// it is known how much: it is on any one of the numas where there is room for it, and the node is in one
// state for each.

// maxKept bounds those states. Pods beyond that, the least first, keep their part on every numa where it
// may be, and the node is crowded: pods that fit nevertheless are let in one after the other, and no
// prediction is believed that rests on it.
const maxKept = 8

// resident is a pod that is in the amounts of a coarse node. pod is nil where it is not known.
type resident struct {
	id  PodID
	pod *place.Pod
	// absent: a report since may be without it, see absent.go.
	absent bool
}

// Begun notes that a container of a pod has started that comes after its init containers: the memory
// manager has taken back what those left. changed is set where that frees memory of which the node's
// reports do not tell.
func (b *Book) Begun(uid string) (node string, changed bool) {
	a := b.carrier(uid)
	if a == nil {
		a = b.countedOn(uid)
	}
	defer b.close(a)
	if a == nil || a.coarse.begun[uid] || a.layout != nil && a.layout.Amounts == nil {
		return "", false
	}
	if a.coarse.begun == nil {
		a.coarse.begun = map[string]bool{}
	}
	maps.DeleteFunc(a.coarse.begun, func(uid string, _ bool) bool { return !b.holds(a.name, uid) && !b.Booked(a.name, uid) })
	a.coarse.begun[uid] = true
	if a.layout == nil {
		return "", false
	}
	if f := a.find(uid); f != nil {
		kept := slices.Clone(f.earlier.kept.of)
		for i, o := range kept {
			kept[i] = a.lasting(uid, o)
		}
		f.earlier.kept.of = kept
	}
	l := *a.layout
	l.Entries = slices.Clone(l.Entries)
	for i, e := range l.Entries {
		if e.Pod.UID == uid {
			l.Entries[i].Holdings = a.lasting(uid, e.Holdings)
		}
	}
	a.layout = &l
	b.renew(a)
	return a.name, true
}

// countedOn returns the account of the coarse node that accounts for a pod, locked, or nil. An exact node may
// claim the pod, too, and has no say here.
func (b *Book) countedOn(uid string) *account {
	for _, node := range b.holders(uid) {
		a := b.open(node)
		if a != nil {
			if _, is := a.coarse.counted[uid]; is {
				return a
			}
		}
		b.close(a)
	}
	return nil
}

// lasting returns holdings without memory that the node has taken back.
func (a *account) lasting(uid string, hs []place.Holding) []place.Holding {
	if !a.coarse.begun[uid] {
		return hs
	}
	out := slices.Clone(hs)
	for i := range out {
		if out[i].Kind == place.Init {
			out[i].Memory = nil
		}
	}
	return trimmed(out)
}

// shown returns what of the holdings of pods is in the amounts of the node.
func (a *account) shown(hs []place.Holding) []place.Holding {
	if a.layout.Amounts.Whole {
		return hs
	}
	return slices.DeleteFunc(slices.Clone(hs), func(h place.Holding) bool { return h.Kind == place.Init })
}

// leftovers returns what every init container of a pod leaves that no other container of it has.
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
		left := place.Holding{Container: h.Container, Kind: place.Init, CPUs: h.CPUs.Minus(cpus)}
		left.Memory = slices.DeleteFunc(slices.Clone(h.Memory), func(b place.Block) bool { return b.Bytes == 0 })
		for _, d := range h.Devices {
			d.IDs = slices.DeleteFunc(slices.Clone(d.IDs), func(id string) bool { return devices[[2]string{d.Resource, id}] })
			if len(d.IDs) > 0 {
				left.Devices = append(left.Devices, d)
			}
		}
		note(h)
		if !left.Empty() {
			out = append(out, left)
		}
	}
	return out
}

// keeper is one lot of amounts that a pod keeps on some numa.
type keeper struct {
	id        PodID
	container string
	amounts   map[string]int64
	// beside is what the reports show of the pod, where that is on the same numa for sure; otherwise nil.
	beside map[string]int64
	// vague: this is the most that it may be, or it may be on several numas.
	vague bool
}

// keepers returns what pods keep of which it is not known where they are, the greatest first.
func (a *account) keepers(base *Node) (out []keeper) {
	if a.layout.Amounts.Whole {
		return nil
	}
	for uid, r := range a.coarse.counted {
		if _, left := a.gone[uid]; left || r.pod == nil || !inits(r.pod) {
			continue
		}
		if _, known := base.Entry(uid); known {
			continue
		}
		hs, ok := a.needs(r.pod)
		if !ok {
			continue
		}
		k := keeper{id: r.id}
		if a.together(r.pod, hs) {
			if lots := leftovers(a.lasting(uid, hs)); len(lots) > 0 {
				k.container, k.amounts, k.beside = lots[0].Container, sum(lots), sum(a.shown(hs))
				out = append(out, k)
			}
			continue
		}
		hs, k.vague = unshared(r.pod, a.lasting(uid, hs))
		k.vague = k.vague || a.wide(r.pod)
		for _, h := range leftovers(hs) {
			k.container, k.amounts = h.Container, sum([]place.Holding{h})
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(x, y keeper) int {
		return cmp.Or(cmp.Compare(y.amounts["cpu"], x.amounts["cpu"]), cmp.Compare(y.amounts[topo.Memory], x.amounts[topo.Memory]),
			strings.Compare(x.id.UID, y.id.UID), strings.Compare(x.container, y.container))
	})
	return out
}

// unshared returns the holdings of a pod as they are if its containers got memory on different numas: then
// they use none of each other's. changed reports whether that makes a difference. (CPUs and devices that
// are left tie the next container to their numas.)
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

// wide reports whether a container of a pod may hold parts of several numas: it is restricted to one where the
// policy says so, or where the preferred width is one, which does not depend on what is free.
func (a *account) wide(p *place.Pod) bool {
	switch a.layout.Rules.Topology.Policy {
	case place.SingleNUMA:
		return false
	case place.Restricted:
		v := place.Place(a.empty, p)
		return !v.Fits() || slices.ContainsFunc(v.Holdings, func(h place.Holding) bool { return h.NUMAs(a.layout.Machine).Len() > 1 })
	}
	return true
}

func inits(p *place.Pod) bool {
	return slices.ContainsFunc(p.Containers, func(c place.Container) bool { return c.Kind == place.Init })
}

// together reports whether all that a pod holds is on one numa: the node aligns the pod as a whole, or its
// CPUs tie one container to the numa of those before.
func (a *account) together(p *place.Pod, hs []place.Holding) bool {
	t := a.layout.Rules.Topology
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

// lodging is a node in one of its states. rest is the node with less held by nobody in particular: what
// reports show of the pods whose place was decided is not there to show others.
type lodging struct{ node, rest *Node }

// kept returns the states in which a coarse node may be, given what pods keep: at least one. hazy is set
// where these are not all.
func (a *account) kept(base *Node) (out []*Node, hazy bool) {
	states := []lodging{{base, base}}
	for _, k := range a.keepers(base) {
		next := k.lodge(states)
		if len(next) == 0 && k.beside != nil {
			k.beside = nil // the amounts do not show it on any one numa, whatever the rules say
			next = k.lodge(states)
		}
		switch {
		case len(next) == 0:
			next, hazy = k.each(states, k.spread), true
		case len(next) > maxKept:
			next, hazy = k.each(states, k.everywhere), true
		}
		states, hazy = next, hazy || k.vague
	}
	for _, s := range states {
		n := *s.node
		n.Crowded = hazy || a.coarse.blurred
		out = append(out, &n)
	}
	return out, hazy
}

// lodge returns the states that follow: the part is on any one numa, in each of them. Equal ones are one.
func (k *keeper) lodge(states []lodging) (out []lodging) {
	seen := map[string]bool{}
	for _, s := range states {
		for i := range s.node.Machine.NUMAs() {
			next, ok := lodging{rest: s.rest}, true
			if k.beside != nil {
				next.rest, ok = less(s.rest, i, k.beside)
			}
			if !ok {
				continue
			}
			if next.node, ok = k.on(s.node, i); !ok {
				continue
			}
			if key := left(next.node.Usage) + left(next.rest.Usage); !seen[key] {
				seen[key], out = true, append(out, next)
			}
		}
	}
	return out
}

func (k *keeper) each(states []lodging, do func(*Node) *Node) []lodging {
	out := slices.Clone(states)
	for i := range out {
		out[i].node = do(out[i].node)
	}
	return out
}

// everywhere returns the node with the part on every numa that has room for it.
func (k *keeper) everywhere(n *Node) *Node {
	for i := range n.Machine.NUMAs() {
		if next, ok := k.on(n, i); ok {
			n = next
		}
	}
	return n
}

// on returns the node with the part on one numa; ok is false where there is no room.
func (k *keeper) on(n *Node, i int) (*Node, bool) {
	h, left := k.take(n.Usage, i, k.amounts)
	if len(left) > 0 {
		return nil, false
	}
	return k.with(n, h), true
}

// spread returns the node with the part on as many numas as it takes, as far as there is room.
func (k *keeper) spread(n *Node) *Node {
	left := k.amounts
	for i := range n.Machine.NUMAs() {
		var h place.Holding
		if h, left = k.take(n.Usage, i, left); !h.Empty() {
			n = k.with(n, h)
		}
	}
	return n
}

func (k *keeper) with(n *Node, h place.Holding) *Node {
	out := *n
	out.Entries = slices.Clone(n.Entries)
	at := slices.IndexFunc(out.Entries, func(e Entry) bool { return e.Pod.UID == k.id.UID })
	if at < 0 {
		at, out.Entries = len(out.Entries), append(out.Entries, Entry{Pod: k.id, Source: Counted})
	}
	out.Entries[at].Holdings = append(slices.Clone(out.Entries[at].Holdings), h)
	out.Usage = n.Usage.Hold(h)
	return &out
}

// take takes of amounts what one numa has free, and returns what is missing.
func (k *keeper) take(u *place.Usage, i int, amounts map[string]int64) (h place.Holding, missing map[string]int64) {
	h, missing = place.Holding{Container: k.container, Kind: place.Init}, maps.Clone(amounts)
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		want, got := amounts[name], int64(0)
		if name == "cpu" {
			free := u.Machine.NUMAs()[i].CPUs.And(u.FreeCPUs()).List()
			got = min(want, int64(len(free)))
			h.CPUs = idset.Of(free[:got]...)
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

// left is equal for usages of a coarse machine that have as much free of every numa.
func left(u *place.Usage) string {
	var b strings.Builder
	for i, n := range u.Machine.NUMAs() {
		fmt.Fprintf(&b, "%d", n.CPUs.AndLen(u.FreeCPUs()))
		for _, kind := range u.Kinds() {
			fmt.Fprintf(&b, ",%d", u.FreeMemory(i, kind))
		}
		for k := range u.Machine.Resources() {
			fmt.Fprintf(&b, ",%d", u.FreeDevicesOn(k, 1<<uint(i)))
		}
		b.WriteByte(';')
	}
	return b.String()
}
