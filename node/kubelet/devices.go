package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file finds the devices of each resource, including unhealthy ones. The device manager counts unhealthy devices
// when it computes how many NUMA nodes a request needs (pkg/kubelet/cm/devicemanager/topology_hints.go,
// generateDeviceTopologyHints). The podresources service lists healthy devices only. The Node's capacity counts both,
// so the difference is the number of unhealthy ones.

// stock has the devices of one resource. Each device is in one of the lists.
type stock struct {
	healthy  []Device // listed as allocatable
	unlisted []Device // healthy, and not listed because its plugin announces an empty list of NUMA nodes
	held     []Device // held by a container, and in neither list above
	known    []Device // listed earlier, and now in none of the lists above
	count    int64    // devices in the Node's capacity, unhealthy ones included; -1 if it is unknown
}

func (s *stock) len() int { return len(s.healthy) + len(s.unlisted) + len(s.held) + len(s.known) }

// size returns how much of a machine's room for devices the devices of the stock take at most; see topo.DeviceSize.
func (s *stock) size() (sum int) {
	for _, list := range [][]Device{s.healthy, s.unlisted, s.held, s.known} {
		for i := range list {
			sum += topo.DeviceSize(list[i].ID)
		}
	}
	return sum
}

// stocks returns the devices by resource. If several sources have a device, it is in the first list of its stock to
// which one of them belongs.
func (o Observation) stocks() map[string]*stock {
	out, have := map[string]*stock{}, map[[2]string]bool{}
	add := func(d Device, to func(*stock) *[]Device) {
		key := [2]string{d.Resource, d.ID}
		if have[key] {
			return
		}
		have[key] = true
		s := out[d.Resource]
		if s == nil {
			s = &stock{count: -1}
			if o.Capacity != nil {
				s.count = o.Capacity[d.Resource]
			}
			out[d.Resource] = s
		}
		list := to(s)
		*list = append(*list, d)
	}
	for _, d := range o.Allocatable {
		add(d, func(s *stock) *[]Device { return &s.healthy })
	}
	for _, d := range o.unlisted(have) {
		add(d, func(s *stock) *[]Device { return &s.unlisted })
	}
	for _, l := range o.Listed {
		for _, c := range l.Containers {
			for _, d := range c.Devices {
				add(d, func(s *stock) *[]Device { return &s.held })
			}
		}
	}
	for _, d := range o.Known {
		if s := out[d.Resource]; s != nil || o.Capacity[d.Resource] > 0 {
			add(d, func(s *stock) *[]Device { return &s.known })
		}
	}
	return out
}

// unlisted returns the healthy devices that the service does not list; listed has the resource and id of the others.
// The service has one entry for each NUMA node of a device, and so none if the plugin announces an empty list
// (pkg/kubelet/cm/container_manager.go, containerDevicesFromResourceDeviceInstances). Such devices are registered in
// the state file, and were never listed. The file may also have devices of a plugin that is gone. So unlisted returns
// at most as many as the Node's allocatable amount exceeds the listed devices.
func (o Observation) unlisted(listed map[[2]string]bool) (out []Device) {
	if o.Devices == nil || len(o.Usable) == 0 {
		return nil
	}
	count, earlier := map[string]int64{}, map[[2]string]bool{}
	for key := range listed {
		count[key[0]]++
	}
	for _, d := range o.Known {
		earlier[[2]string{d.Resource, d.ID}] = true
	}
	for _, resource := range slices.Sorted(maps.Keys(o.Devices.Registered)) {
		left := o.Usable[resource] - count[resource]
		for _, id := range o.Devices.Registered[resource] {
			if key := [2]string{resource, id}; left > 0 && !listed[key] && !earlier[key] {
				out = append(out, Device{Resource: resource, ID: id, List: topo.EmptyList})
				left--
			}
		}
	}
	return out
}

// unhealthy returns how many devices are unhealthy at least, and devices that are probably among them, at most as
// many. Devices that containers hold come before devices that were listed earlier. If the capacity is unknown, the
// held devices that are not listed count as unhealthy. If the capacity counts no more devices than are healthy, both
// results are empty: the plugin has withdrawn the other devices, and the kubelet does not count them.
func (s *stock) unhealthy() (count int64, named []Device) {
	if s.count < 0 {
		return int64(len(s.held)), s.held
	}
	count = max(0, s.count-int64(len(s.healthy)+len(s.unlisted)))
	named = slices.Concat(s.held, s.known)
	return count, named[:min(count, int64(len(named)))]
}

// Omitted returns the resources whose devices do not fit into a machine, and why. For example, some plugins announce
// each MiB of a GPU as a device, or ids that are not printable ASCII. All other resources stay in the machine.
// Devices that m already has do not matter.
func (o Observation) Omitted(m *topo.Machine) map[string]string { return omittedOf(o.stocks(), m) }

// omittedOf is Omitted for devices that are counted already.
func omittedOf(stocks map[string]*stock, m *topo.Machine) map[string]string {
	out, kinds, room := map[string]string{}, 0, m.DeviceRoom()
	for _, name := range slices.Sorted(maps.Keys(stocks)) {
		s := stocks[name]
		bad, found := s.badName(name)
		switch n, size := s.len(), s.size(); {
		case n > topo.MaxDevices:
			out[name] = fmt.Sprintf("%d devices, the most is %d", n, topo.MaxDevices)
		case found:
			out[name] = fmt.Sprintf("%q is not printable ASCII of 1 to %d characters", clip(bad), topo.MaxName)
		case kinds == topo.MaxKinds:
			out[name] = fmt.Sprintf("more than %d resources have devices", topo.MaxKinds)
		case size > room:
			out[name] = fmt.Sprintf("%d devices beside those of other resources are more than a layout can have", n)
		default:
			kinds, room = kinds+1, room-size
		}
	}
	return out
}

// badName returns a name of the resource or of one of its devices that a machine cannot have.
func (s *stock) badName(resource string) (name string, found bool) {
	if !topo.IsName(resource) {
		return resource, true
	}
	for _, list := range [][]Device{s.healthy, s.unlisted, s.held, s.known} {
		for _, d := range list {
			if !topo.IsName(d.ID) {
				return d.ID, true
			}
		}
	}
	return "", false
}

// Machine returns m with the kubelet's devices instead of its own: the healthy devices, and the unhealthy ones that
// earlier reports or holdings name (see Unhealthy). It leaves out the resources that are Omitted. If a device is on a
// NUMA node that m lacks, its [topo.NUMAList] shows that. The kubelet does not report PCI roots, so a device that m
// has too keeps its root from m.
func (o Observation) Machine(m *topo.Machine) (*topo.Machine, error) { return o.MachineBy(m, topo.New) }

// MachineBy does what Machine does, and calls build to make the machine. build may return an equal machine that
// exists already.
func (o Observation) MachineBy(m *topo.Machine, build func(topo.Spec) (*topo.Machine, error)) (*topo.Machine, error) {
	s := m.Spec()
	s.Devices = nil
	add := func(d Device, unhealthy bool) {
		described, _ := m.Resource(d.Resource)
		spec := topo.DeviceSpec{Resource: d.Resource, ID: d.ID, Unhealthy: unhealthy, List: d.List,
			Root: described.Device(d.ID).Root}
		for id := range d.NUMAs.All() {
			if _, ok := m.Position(id); ok {
				spec.NUMAs = append(spec.NUMAs, id)
			} else {
				spec.List = topo.UnknownID
			}
		}
		s.Devices = append(s.Devices, spec)
	}
	stocks := o.stocks()
	omitted := omittedOf(stocks, m)
	for _, name := range slices.Sorted(maps.Keys(stocks)) {
		if omitted[name] != "" {
			continue
		}
		for _, d := range slices.Concat(stocks[name].healthy, stocks[name].unlisted) {
			add(d, false)
		}
		_, named := stocks[name].unhealthy()
		for _, d := range named {
			add(d, true)
		}
	}
	out, err := build(s)
	if err != nil {
		return nil, fmt.Errorf("machine with devices: %w", err)
	}
	return out, nil
}

// Unhealthy returns a reason for each resource with devices that the kubelet counts but does not list. The devices
// that Machine takes for these are a guess, because a plugin may have replaced some. Unhealthy returns nil if no
// topology policy is set or the machine has one NUMA node, because hints do not matter then.
func (o Observation) Unhealthy(m *topo.Machine, r place.Rules) (out []state.Inexact) {
	if r.Topology.Policy == place.None || len(m.NUMAs()) < 2 {
		return nil
	}
	stocks := o.stocks()
	omitted := omittedOf(stocks, m)
	for _, name := range slices.Sorted(maps.Keys(stocks)) {
		s := stocks[name]
		n, named := s.unhealthy()
		if n == 0 || omitted[name] != "" {
			continue
		}
		out = append(out, state.Inexact{Code: state.UnhealthyDevices, Message: fmt.Sprintf(
			"%s: %d devices are known as healthy, %d more are unhealthy; the NUMA nodes of %d of these are taken from "+
				"earlier reports",
			name, len(s.healthy)+len(s.unlisted), n, len(named))})
	}
	return out
}

// Unusable returns why a kubelet with these rules serves no pod that needs alignment on a machine: its managers fail,
// or do not start. found reports whether there is such a reason.
func Unusable(m *topo.Machine, r place.Rules) (why state.Inexact, found bool) {
	reasons := r.Obstacles(m)
	if len(reasons) == 0 {
		return why, false
	}
	var parts []string
	for _, reason := range reasons {
		parts = append(parts, reason.Text())
	}
	return state.Inexact{Code: state.KubeletUnusable, Message: strings.Join(parts, "; ") +
		"; topologyManagerPolicy none with memoryManagerPolicy None works on any machine"}, true
}
