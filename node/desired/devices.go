package desired

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// devices are the devices that the kubelet has listed, by resource and id. They are kept because the kubelet stops
// listing a device that becomes unhealthy, but still counts it on its NUMA nodes. A devices is never changed.
type devices map[string]map[string]kubelet.Device

// learn returns the known devices after the kubelet has listed some. It keeps the earlier devices of a resource only
// if the Node's capacity counts more devices than are listed, because the others are then unhealthy. It drops the
// earlier devices, too, if there would be more than 2*topo.MaxDevices of the resource.
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

// union returns the devices of both; b takes precedence.
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
