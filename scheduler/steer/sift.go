package steer

import (
	"context"
	"reflect"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/tenon-numa/tenon/cluster/claims"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// This file tries near devices in the state of the scheduling cycle itself. That costs no second PreFilter for the
// node, which takes as long as Filter.

// standIns are what the wrapped plugin gets instead of the slices of a node. They have all devices of these, except
// while it filters the node.
type standIns struct {
	mu     sync.Mutex // held while Filter runs for the node
	slices []*resourcev1.ResourceSlice
}

// newStandIns returns the stand-ins of slices, or nil if some of their devices cannot be left out for certain without
// an effect on the others.
func newStandIns(list []*resourcev1.ResourceSlice) *standIns {
	out, names := &standIns{}, map[claims.ID]bool{}
	for _, s := range list {
		if s.Spec.PerDeviceNodeSelection != nil || len(s.Spec.SharedCounters) > 0 {
			return nil
		}
		for i := range s.Spec.Devices {
			// A pool is not valid if two devices have one name.
			id := claims.ID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Name: s.Spec.Devices[i].Name}
			if names[id] || !plain(&s.Spec.Devices[i]) {
				return nil
			}
			names[id] = true
		}
		copied := *s
		out.slices = append(out.slices, &copied)
	}
	return out
}

// plain reports whether a device has nothing but attributes, capacities and taints, which are about itself. Fields that
// a later release adds are not plain.
func plain(d *resourcev1.Device) bool {
	return reflect.DeepEqual(*d, resourcev1.Device{Name: d.Name, Attributes: d.Attributes, Capacity: d.Capacity,
		Taints: d.Taints})
}

// sifts reports whether the devices of a node may be left out one by one: for requests that count devices, and pools
// that the node has for itself.
func (c *cycle) sifts(n *ofNode) bool {
	if n.standIns == nil || c.lists > 0 || c.whole || c.reserved {
		return false
	}
	for _, p := range n.pools {
		if len(c.rest.pools[p.poolID]) != p.own {
			return false
		}
	}
	return true
}

// try tries to allocate the devices on some NUMA nodes of a node, and of the demanded devices only those that are
// certainly there. It returns nil if that is not possible. failed and fault are as for [trial.run].
func (p *Plugin) try(
	ctx context.Context,
	cs fwk.CycleState,
	pod *v1.Pod,
	info fwk.NodeInfo,
	c *cycle,
	near []int,
	d demand,
) (a *attempt, failed bool, fault *fwk.Status) {
	n := c.nodes[info.Node().Name]
	// Where all devices are located, those that are left are certainly near.
	limits := d.limits() && (c.whole || n.unknown || len(c.rest.common) > 0)
	switch {
	case limits:
		return p.runLimited(ctx, cs, pod, info, c, near, c.confined(n, near, d.drivers))
	case !c.sifts(n) || logsSlices(ctx):
		return p.trial.run(ctx, cs, pod, info, &c.seen, c.confined(n, near, d.drivers))
	}
	n.sift(near, d.drivers)
	defer n.restore()
	switch status := p.DynamicResources.Filter(ctx, cs, pod, info); status.Code() {
	case fwk.Success:
		return &attempt{cs}, false, nil
	case fwk.Error:
		return nil, true, status
	default:
		return nil, false, nil
	}
}

// sift leaves the devices on other NUMA nodes than the given ones out of the stand-ins, and of the drivers also those
// whose NUMA node is not known.
func (n *ofNode) sift(near []int, drivers []string) {
	for i, s := range n.standIns.slices {
		known := slices.Contains(drivers, s.Spec.Driver)
		s.Spec.Devices = kept(n.slices[i].Spec.Devices, func(k int) bool {
			on := n.numas[i][k]
			return claims.Touch(on, near) || on == nil && !known
		})
	}
}

// kept returns the devices for which keep is true. Drivers list the devices of a NUMA node one after the other, so the
// result is mostly a part of all, and costs no copy.
func kept(all []resourcev1.Device, keep func(k int) bool) []resourcev1.Device {
	from := 0
	for from < len(all) && !keep(from) {
		from++
	}
	to := from
	for to < len(all) && keep(to) {
		to++
	}
	out := all[from:to:to]
	for k := to; k < len(all); k++ {
		if keep(k) {
			out = append(slices.Grow(out, len(all)-k), all[k])
		}
	}
	return out
}

// restore gives the stand-ins all devices again.
func (n *ofNode) restore() {
	for i, s := range n.standIns.slices {
		s.Spec.Devices = n.slices[i].Spec.Devices
	}
}
