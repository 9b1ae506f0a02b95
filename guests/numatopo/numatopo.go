// Package numatopo publishes the Numatopology (nodeinfo.volcano.sh/v1alpha1) of one node, for Volcano's plugin
// numa-aware and other readers that do not read NodeLayouts.
//
// [FromCore] only translates; [Publisher] writes the result to an API server. Invariant: an id is in the free set of
// a resource only if a container can get it, and equal nodes give equal objects. The package leaves out devices whose
// NUMA node is unknown, because readers would take them for devices of NUMA node 0.
package numatopo

import (
	"strconv"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Spec has the fields of Volcano's NumatopoSpec, and the field gpuDetail that was proposed to Volcano. API servers
// whose definition lacks gpuDetail drop that field.
type Spec struct {
	Policies    map[string]string   `json:"policies"`
	ResReserved map[string]string   `json:"resReserved,omitempty"`
	Numares     map[string]Resource `json:"numares"`
	CPUDetail   map[string]CPU      `json:"cpuDetail"`
	GPUDetail   map[string]GPU      `json:"gpuDetail,omitempty"`
}

// Resource is what a node has of a resource: the ids of the free units, as a list like "0-3,8", and the number of all
// units.
type Resource struct {
	Allocatable string `json:"allocatable"`
	Capacity    int    `json:"capacity"`
}

// CPU has the ids of the NUMA node, socket and core of a CPU.
type CPU struct {
	NUMA   int `json:"numa"`
	Socket int `json:"socket"`
	Core   int `json:"core"`
}

// GPU has the id of a device's NUMA node. It is always written, because readers take a missing one for 0.
type GPU struct {
	NUMA int `json:"numa"`
}

// FromCore returns the object's specification. gpus is the resource whose devices it has; "" means no devices.
//
//   - The number of a core is its lowest CPU, because core numbers of sysfs are unique within a socket only, and
//     because numa-aware compares core numbers with CPU numbers.
//   - The free CPUs are without the reserved ones, and cpu is not in resReserved: from an amount, numa-aware would
//     guess which CPUs are reserved, and take CPUs away a second time.
//   - A device has as its number its position among all devices of the resource, in the order of their ids. Devices
//     near no NUMA node, or near several, are left out, and unhealthy ones are not free.
func FromCore(n *state.Node, gpus string) Spec {
	out := Spec{
		Policies: map[string]string{
			"CPUManagerPolicy":      "none",
			"TopologyManagerPolicy": n.Rules.Topology.Policy.String(),
		},
		ResReserved: reserved(n),
		Numares: map[string]Resource{
			"cpu": {n.Usage.FreeCPUs().Minus(n.Rules.CPU.Reserved).String(), n.Machine.CPUs().Len()},
		},
		CPUDetail: map[string]CPU{},
	}
	if n.Rules.CPU.Static {
		out.Policies["CPUManagerPolicy"] = "static"
	}
	for id := range n.Machine.CPUs().All() {
		c, _ := n.Machine.CPU(id)
		numa := n.Machine.NUMAs()[c.NUMA].ID
		out.CPUDetail[strconv.Itoa(int(id))] = CPU{NUMA: int(numa), Socket: int(c.Socket), Core: int(c.Core)}
	}
	if r, ok := n.Machine.Resource(gpus); ok {
		out.addDevices(r, n.Usage.FreeDevices(gpus), n.Machine)
	}
	return out
}

// reserved returns what the memory manager reserves of each kind of memory, as decimal numbers of bytes.
func reserved(n *state.Node) map[string]string {
	sums := map[string]int64{}
	for _, r := range n.Rules.Memory.Reserved {
		sums[r.Kind] += r.Bytes
	}
	out := map[string]string{}
	for kind, bytes := range sums {
		out[kind] = strconv.FormatInt(bytes, 10)
	}
	return out
}

// addDevices adds the devices of a resource that are near exactly one NUMA node; free are the free ones.
func (s *Spec) addDevices(r topo.Resource, free []topo.Device, m *topo.Machine) {
	isFree := map[string]bool{}
	for _, d := range free {
		isFree[d.ID] = true
	}
	var ids []int
	s.GPUDetail = map[string]GPU{}
	for i, d := range r.Devices {
		if d.NUMAs.Len() != 1 || !idset.Valid(i) {
			continue
		}
		s.GPUDetail[strconv.Itoa(i)] = GPU{NUMA: int(m.NUMAs()[d.NUMAs.First()].ID)}
		if isFree[d.ID] {
			ids = append(ids, i)
		}
	}
	if len(s.GPUDetail) > 0 {
		s.Numares[r.Name] = Resource{Allocatable: idset.Of(ids...).String(), Capacity: len(s.GPUDetail)}
	}
}
