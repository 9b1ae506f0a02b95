package desired

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// devices are those that the kubelet has listed, by resource and id. A device that becomes unhealthy is not listed
// any more; its NUMA nodes are known from here. A devices is never changed.
type devices map[string]map[string]kubelet.Device

// learn returns the devices after the kubelet listed some. Where the Node counts no more devices of a resource than
// are listed, these are all, and others are forgotten.
func (d devices) learn(listed []kubelet.Device, capacity map[string]int64) devices {
	now := devices{}
	for _, x := range listed {
		if now[x.Resource] == nil {
			now[x.Resource] = map[string]kubelet.Device{}
		}
		now[x.Resource][x.ID] = x
	}
	out := devices{}
	for resource, known := range d {
		if capacity[resource] > int64(len(now[resource])) {
			out[resource] = known
		}
	}
	for resource, devs := range now {
		if known := out[resource]; known != nil && len(known)+len(devs) <= 2*topo.MaxDevices {
			devs = union(known, devs)
		}
		out[resource] = devs
	}
	return out
}

// union returns the devices of both, those of b where both have one.
func union(a, b map[string]kubelet.Device) map[string]kubelet.Device {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// list returns the devices in ascending order of resource and id.
func (d devices) list() (out []kubelet.Device) {
	for _, resource := range slices.Sorted(maps.Keys(d)) {
		for _, id := range slices.Sorted(maps.Keys(d[resource])) {
			out = append(out, d[resource][id])
		}
	}
	return out
}
