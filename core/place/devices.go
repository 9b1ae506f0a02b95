package place

import (
	"math/bits"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file is the device manager (devicemanager/topology_hints.go and manager.go). The rules are:
//
//  - It serves pods of any QoS class. It gives no hints for a resource whose devices have no NUMA node.
//  - Masks range over the NUMA nodes that have devices of the resource; before 1.36, over all NUMA nodes. The
//    preferred width counts all devices, held and unhealthy ones too; a device of several NUMA nodes counts for every
//    mask it touches.
//  - A plugin may name only ids that the machine lacks, such as -1. Its device then counts as one with a NUMA node,
//    but lies in no mask: if a request needs it, no mask serves the request. If an init container holds such a
//    device, or one with an empty list, no mask serves the next container.
//  - It takes first what init containers of the pod leave; then devices that touch the affinity, then
//    other devices with a NUMA node, then devices without.
//  - Among equal devices the kubelet takes any (it ranges over a map), or asks the plugin for a preference.
//    The prediction is then marked (DeviceBlock.Free, DeviceBlock.Loose). A plugin that is asked for devices
//    outside the affinity may prefer devices without a NUMA node. Only the kubelet has information about which
//    plugins have preferences.

// deviceHintSet returns the hint set of a device resource. choosy is false if the resource has no preference, or if no
// device plugin of the machine serves it, because the device manager ignores such a resource.
func (a *admission) deviceHintSet(l *maskSpace, r *request, want Count, t tables) (f hintSet, choosy bool) {
	at, res, known := a.u.resource(want.Resource)
	if !known || a.u.sets[at].numas == 0 {
		return f, false
	}
	universe := l.dense(a.u.sets[at].numas)
	shared := a.u.sets[at].shared
	if !a.work.spend(10*l.count() + len(res.Devices)*(len(l.at)+4) + 2*shared*l.count()) {
		return hintSet{resource: want.Resource, impossible: true}, true
	}
	reusable := r.spare.devices[want.Resource]
	f = hintSet{resource: want.Resource, want: want.N, width: bits.OnesCount(uint(universe))}
	for i := range l.at {
		t.whole[1<<i], t.free[1<<i] = 0, 0
	}
	taken := a.u.taken[at]
	for i := range res.Devices {
		d := &res.Devices[i]
		touch := l.dense(d.NUMAs)
		usable := int64(0)
		if reusable.has(i) || (!d.Unhealthy && !taken.has(i)) {
			usable = 1
		}
		f.total += usable
		if touch == 0 {
			f.apart += usable
		}
		// A tie is the mask of the NUMA nodes of a device. The tie of a device with an unusual list is empty. No
		// mask touches an empty tie, so no mask serves the request.
		tied := touch != 0 || a.u.sets[at].listed && d.List != topo.UsualList
		if reusable.has(i) && tied && !slices.Contains(f.ties, touch) && a.work.spend(l.count()+len(f.ties)) {
			f.ties = append(f.ties, touch)
		}
		if touch&(touch-1) == 0 && touch != 0 { // on one NUMA node; countShared adds devices on several
			t.whole[touch]++
			t.free[touch] += usable
		}
	}
	l.sum(t.whole)
	l.sum(t.free)
	if shared > 0 {
		a.countShared(l, at, reusable, t)
	}
	t.open(l, universe)
	t.demand(l, want.N)
	f = t.close(l, f)
	f.tie(l)
	f.prefer(l)
	return f, true
}

// triedNUMAs returns how many NUMA nodes the device manager combines for a resource: it tries every set of them. The
// result is 0 if it tries none.
func (u *Usage) triedNUMAs(resource string) int {
	at, _, known := u.resource(resource)
	if !known || u.Rules.Topology.Policy == None {
		return 0
	}
	return u.sets[at].numas.Len()
}

// Stranded reports whether a kubelet with these rules never gives out a device of a resource, however much is free:
// the device has no NUMA node of the machine, the kubelet aligns the resource, and the policy admits only what is
// aligned.
func (r Rules) Stranded(m *topo.Machine, resource string, d topo.Device) bool {
	if d.NUMAs != 0 || r.Topology.Policy < Restricted {
		return false
	}
	for _, x := range m.Resources() {
		if x.Name == resource {
			return x.NUMAs != 0 || slices.ContainsFunc(x.Devices, func(d topo.Device) bool { return d.List.Names() })
		}
	}
	return false
}

// countShared adds the devices that are on several NUMA nodes to the tables, each one once to every mask that it
// touches.
func (a *admission) countShared(l *maskSpace, at int, reusable devices, t tables) {
	taken := a.u.taken[at]
	for i, d := range a.u.Machine.Resources()[at].Devices {
		touch := l.dense(d.NUMAs)
		if touch&(touch-1) == 0 {
			continue
		}
		usable := reusable.has(i) || (!d.Unhealthy && !taken.has(i))
		for m := 1; m < len(t.whole); m = l.next(m) {
			if m&touch != 0 {
				t.whole[m]++
				if usable {
					t.free[m]++
				}
			}
		}
	}
}

// allocateDevices gives a container its devices. It returns "", or the kubelet's reason for refusing the pod.
func (a *admission) allocateDevices(i int, h hint) RefusalReason {
	c := &a.pod.Containers[i]
	if a.pod.late && !slices.ContainsFunc(a.servedDevices(c.Devices), func(d Count) bool { return d.N > 0 }) {
		return "" // the device manager is not asked when the container starts
	}
	for _, want := range c.Devices {
		at, res, known := a.u.resource(want.Resource)
		if !known {
			continue
		}
		if have := a.usableDevices(at, res); a.u.sets[at].healthy == 0 || have < want.N {
			a.refuse(Reason{Code: Short, Container: c.Name, Resource: want.Resource, Want: want.N, Have: have})
			return UnexpectedAdmissionError
		}
		a.work.spend(8*len(res.Devices) + 64*int(max(0, want.N)))
		if want.N <= 0 || (a.brief && a.last(i)) {
			continue
		}
		block := a.takeDevices(at, res, int(want.N), h)
		a.inherit(i, &block)
		own := a.entryOf(i)
		own.Devices = append(own.Devices, block)
	}
	if !a.last(i) {
		a.bookDevices(i)
	}
	return ""
}

// usableDevices counts the devices that a container of the pod may get: healthy devices that are free, and devices that
// init containers of the pod leave.
func (a *admission) usableDevices(at int, res topo.Resource) (n int64) {
	reusable, taken := a.spare.devices[res.Name], a.u.taken[at]
	if reusable == nil {
		return a.u.amounts[a.u.usable(at)]
	}
	for i := range res.Devices {
		if reusable.has(i) || (!res.Devices[i].Unhealthy && !taken.has(i)) {
			n++
		}
	}
	return n
}

// inherit marks a container's devices as chosen by chance if chance chose devices of the same resource for an earlier
// container of the pod. The earlier container may have taken a device that is predicted for this one, or may leave
// another device for reuse.
func (a *admission) inherit(i int, b *DeviceBlock) {
	earlier := a.drawn[b.Resource]
	b.Free, b.Loose = b.Free || earlier.free, b.Loose || earlier.loose
	if (b.Free || b.Loose) && !a.last(i) {
		if a.drawn == nil {
			a.drawn = map[string]chance{}
		}
		a.drawn[b.Resource] = chance{b.Free, b.Loose}
	}
}

// chance is what the kubelet chooses by chance in a pick; see DeviceBlock.
type chance struct{ free, loose bool }

// takeDevices picks need devices of a resource. At least as many must be usable.
func (a *admission) takeDevices(at int, res topo.Resource, need int, h hint) DeviceBlock {
	block := DeviceBlock{Resource: res.Name}
	picked := newDevices(len(res.Devices))
	pools := a.pools(at, res, h)
	for k, pool := range pools {
		if rest := pools[3].len(); k == 2 && need > 0 && pool.len() > 0 && need < pool.len()+rest && rest > 0 {
			block.Free, block.Loose = true, true // a plugin that prefers devices chooses among both pools
		}
		need -= draw(res, pool, need, picked, &block)
	}
	for i, d := range res.Devices {
		if picked.has(i) {
			block.IDs = append(block.IDs, d.ID)
			block.NUMAs |= d.NUMAs
		}
	}
	return block
}

// healthy returns the number of healthy devices.
func healthy(r topo.Resource) (n int) {
	for _, d := range r.Devices {
		if !d.Unhealthy {
			n++
		}
	}
	return n
}

// pools returns the usable devices in the order in which the kubelet takes them: those that init containers leave,
// those that touch the affinity, others with a NUMA node, and the rest.
func (a *admission) pools(at int, res topo.Resource, h hint) [4]devices {
	var pools [4]devices
	for k := range pools {
		pools[k] = newDevices(len(res.Devices))
	}
	reusable, taken := a.spare.devices[res.Name], a.u.taken[at]
	set := &a.u.sets[at]
	choosy := h.set && set.numas != 0
	for i, d := range res.Devices {
		switch {
		case reusable.has(i):
			pools[0].with(i)
		case d.Unhealthy || taken.has(i):
		case choosy && d.NUMAs&h.mask != 0:
			pools[1].with(i)
		case choosy && (d.NUMAs != 0 || set.listed && d.List == topo.UnknownID):
			pools[2].with(i)
		default:
			pools[3].with(i)
		}
	}
	return pools
}

// draw adds need devices of a pool to picked, lowest ids first, or all if the pool has fewer. It marks the block if
// the kubelet may pick other devices. It returns how many it took.
func draw(res topo.Resource, pool devices, need int, picked devices, block *DeviceBlock) (took int) {
	have := pool.len()
	if need <= 0 || have == 0 {
		return 0
	}
	var first topo.Mask
	seen := false
	for i, d := range res.Devices {
		if !pool.has(i) {
			continue
		}
		if have > need {
			block.Free = true
			block.Loose = block.Loose || (seen && d.NUMAs != first)
		}
		first, seen = d.NUMAs, true
		if took < need {
			picked.with(i)
			took++
		}
	}
	return took
}

// bookDevices subtracts a container's devices from the usage, and records what an init container leaves to later
// containers.
func (a *admission) bookDevices(i int) {
	if len(a.taken[i].Devices) == 0 {
		return
	}
	a.ownUsage()
	for _, b := range a.taken[i].Devices {
		a.u.take(b.Resource, b.IDs)
		_, res, _ := a.u.resource(b.Resource)
		reusable := newDevices(len(res.Devices))
		copy(reusable, a.spare.devices[b.Resource])
		for _, id := range b.IDs {
			at, _ := deviceIndex(res, id)
			if a.pod.Containers[i].Kind == Init {
				reusable.with(at)
			} else {
				reusable.without(at)
			}
		}
		if a.spare.devices[b.Resource] == nil && reusable.len() == 0 {
			continue // nothing is left, so there is nothing to record
		}
		if a.spare.devices == nil {
			a.spare.devices = map[string]devices{}
		}
		a.spare.devices[b.Resource] = reusable
	}
}
