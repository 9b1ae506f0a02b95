package kubelet

import (
	"k8s.io/utils/cpuset"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// MachineInfo returns cadvisor's report of the machine: sizes in bytes, page sizes in KiB, NUMA nodes in ascending
// order of id, distances by position. NumCores counts logical CPUs, as cadvisor does. A core's id is its lowest CPU,
// and the id of its uncore cache is the L3 group's.
func MachineInfo(name string, m *topo.Machine) *machineInfo {
	info := &machineInfo{
		MachineID: name, SystemUUID: name, BootID: "boot-" + name,
		CPUVendorID:      "described",
		NumCores:         m.CPUs().Len(),
		NumPhysicalCores: len(m.Cores()),
		NumSockets:       len(m.Sockets()),
	}
	pages := map[uint64]int{}
	for _, n := range m.NUMAs() {
		node := numaInfo{Id: int(n.ID), Memory: uint64(n.Bytes)}
		for _, h := range n.Hugepages {
			p := pagesInfo{PageSize: uint64(h.PageSize) / 1024, NumPages: uint64(h.Count)}
			node.HugePages = append(node.HugePages, p)
			if at, ok := pages[p.PageSize]; ok {
				info.HugePages[at].NumPages += p.NumPages
				continue
			}
			pages[p.PageSize] = len(info.HugePages)
			info.HugePages = append(info.HugePages, p)
		}
		for _, d := range n.Distances {
			node.Distances = append(node.Distances, uint64(d))
		}
		info.MemoryCapacity += node.Memory
		info.Topology = append(info.Topology, node)
	}
	for _, id := range m.Cores() {
		cpu, _ := m.CPU(idset.CPU(id))
		core := coreInfo{Id: int(id), SocketID: int(cpu.Socket)}
		for t := range m.CoreCPUs(id).All() {
			core.Threads = append(core.Threads, int(t))
		}
		core.UncoreCaches = []cacheInfo{{Id: int(cpu.L3), Level: 3, Type: "Unified"}}
		node := &info.Topology[cpu.NUMA]
		node.Cores = append(node.Cores, core)
	}
	return info
}

func cpusOf(m *topo.Machine) cpuset.CPUSet {
	var ids []int
	for id := range m.CPUs().All() {
		ids = append(ids, int(id))
	}
	return cpuset.New(ids...)
}
