package place

import (
	"math/bits"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file is the device manager (devicemanager/topology_hints.go and manager.go). The rules are:
//
//   - Pods of any QoS class. A resource none of whose devices has a numa has no opinion.
//   - Masks range over the numas that have devices of the resource. The preferred width counts all
//     devices, held and unhealthy ones too; a device of several numas counts for every mask it touches.
//   - What init containers of the pod leave is taken first; then devices that touch the affinity, then
//     other devices with a numa, then devices without.
//   - Among equals the kubelet takes any (it ranges over a map): the prediction then says so.

// deviceNUMAs returns the numas that a resource has devices on.
func (a *admission) deviceNUMAs(resource string) (out topo.Mask) {
	_, r, _ := a.u.resource(resource)
	for _, d := range r.Devices {
		out |= d.NUMAs
	}
	return out
}

// deviceFamily returns the family of a device resource; choosy is false where it has no opinion.
func (a *admission) deviceFamily(l lattice, r request, want Count) (f family, choosy bool) {
	at, res, _ := a.u.resource(want.Resource)
	universe := l.dense(a.deviceNUMAs(want.Resource))
	if universe == 0 {
		return f, false
	}
	left := r.spare.devices[want.Resource]
	f = family{resource: want.Resource, want: want.N, width: bits.OnesCount(uint(universe)), free: make([]int64, l.size())}
	whole := make([]int64, l.size())
	var must []int // dense masks of left devices; each must be touched
	for i, d := range res.Devices {
		usable := left.has(i) || (!d.Unhealthy && !a.u.taken[at].has(i))
		if usable {
			f.total++
		}
		touch := l.dense(d.NUMAs)
		if left.has(i) && touch != 0 {
			must = append(must, touch)
		}
		for m := 1; touch != 0 && m < l.size(); m++ {
			if m&touch != 0 {
				whole[m]++
				if usable {
					f.free[m]++
				}
			}
		}
	}
	if f.total < want.N {
		f.impossible = true
		return f, true
	}
	f.fill(l, universe, func(m int) bool { return whole[m] >= f.want }, func(m int) bool {
		if f.free[m] < f.want {
			return false
		}
		for _, t := range must {
			if m&t == 0 {
				f.tied = true
				return false
			}
		}
		return true
	})
	return f, true
}

// allocateDevices gives a container its devices.
func (a *admission) allocateDevices(i int, h hint) Error {
	c := &a.pod.Containers[i]
	for _, want := range a.known(c.Devices) {
		block, ok := a.takeDevices(want, h)
		if !ok {
			a.refuse(Reason{Code: Short, Container: c.Name, Resource: want.Resource, Want: want.N,
				Have: int64(len(a.u.FreeDevices(want.Resource)))})
			return UnexpectedAdmissionError
		}
		if len(block.IDs) == 0 {
			continue
		}
		a.inherit(&block)
		a.taken[i] = a.holding(i)
		a.taken[i].Devices = append(a.taken[i].Devices, block)
	}
	a.leaveDevices(i)
	return ""
}

// inherit notes that a pick rests on an earlier pick of the pod that was left to chance: what that one
// took is not there for this one, or is there to be reused.
func (a *admission) inherit(b *DeviceBlock) {
	for _, h := range a.taken {
		for _, d := range h.Devices {
			if d.Resource == b.Resource {
				b.Free, b.Loose = b.Free || d.Free, b.Loose || d.Loose
			}
		}
	}
}

// takeDevices picks devices and books them.
func (a *admission) takeDevices(want Count, h hint) (DeviceBlock, bool) {
	at, res, _ := a.u.resource(want.Resource)
	block := DeviceBlock{Resource: want.Resource}
	if healthy(res) == 0 {
		return block, false
	}
	need := int(want.N)
	picked := newDevices(len(res.Devices))
	for _, pool := range a.pools(at, res, h) {
		need -= draw(res, pool, need, picked, &block)
	}
	if need > 0 {
		return block, false
	}
	for i, d := range res.Devices {
		if picked.has(i) {
			a.u.taken[at].with(i)
			block.IDs = append(block.IDs, d.ID)
			block.NUMAs |= d.NUMAs
		}
	}
	return block, true
}

func healthy(r topo.Resource) (n int) {
	for _, d := range r.Devices {
		if !d.Unhealthy {
			n++
		}
	}
	return n
}

// pools returns the usable devices in the order in which the kubelet turns to them.
func (a *admission) pools(at int, res topo.Resource, h hint) [4]devices {
	var pools [4]devices
	for k := range pools {
		pools[k] = newDevices(len(res.Devices))
	}
	left := a.spare.devices[res.Name]
	choosy := h.set && a.deviceNUMAs(res.Name) != 0
	for i, d := range res.Devices {
		switch {
		case left.has(i):
			pools[0].with(i)
		case d.Unhealthy || a.u.taken[at].has(i):
		case choosy && d.NUMAs&h.mask != 0:
			pools[1].with(i)
		case choosy && d.NUMAs != 0:
			pools[2].with(i)
		default:
			pools[3].with(i)
		}
	}
	return pools
}

// draw takes up to need devices of a pool into picked, lowest ids first, and notes where the kubelet's
// own pick may be another one. It returns how many it took.
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

// leaveDevices keeps account of what an init container leaves to later containers.
func (a *admission) leaveDevices(i int) {
	for _, b := range a.taken[i].Devices {
		_, res, _ := a.u.resource(b.Resource)
		left := newDevices(len(res.Devices))
		copy(left, a.spare.devices[b.Resource])
		for _, id := range b.IDs {
			at, _ := deviceIndex(res, id)
			if a.pod.Containers[i].Kind == Init {
				left.with(at)
			} else {
				left.without(at)
			}
		}
		a.spare.devices[b.Resource] = left
	}
}
