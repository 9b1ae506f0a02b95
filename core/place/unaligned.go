package place

import "github.com/tenon-numa/tenon/core/topo"

// UnalignedCode names something that a kubelet does not align. The codes are stable: conditions and the CLI use them.
type UnalignedCode string

// What a kubelet may leave unaligned, each because of one setting.
const (
	// SharedCPUs: under the CPU manager's policy none, all containers share all CPUs.
	SharedCPUs UnalignedCode = "shared-cpus"
	// MemoryAnywhere: under the memory manager's policy None, memory comes from any NUMA node.
	MemoryAnywhere UnalignedCode = "memory-anywhere"
	// ManagersApart: under the topology manager's policy none, each manager chooses NUMA nodes for itself.
	ManagersApart UnalignedCode = "managers-apart"
	// BestEffortOnly: under the policy best-effort, a pod that cannot be aligned still runs.
	BestEffortOnly UnalignedCode = "best-effort-only"
	// ContainersApart: in the scope container, containers of a pod are aligned one by one.
	ContainersApart UnalignedCode = "containers-apart"
)

// Unaligned is one thing that a kubelet does not align because of one setting.
type Unaligned struct {
	Code UnalignedCode
	// What names the unaligned resource and the setting that leaves it so. Remedy names the setting that aligns it.
	What, Remedy string
	// Choice: the setting is one of several sensible ones, and not a default that was left unchanged.
	Choice bool
}

// Text renders what is not aligned for people, with the remedy.
func (u Unaligned) Text() string { return u.What + "; " + u.Remedy }

// Unaligned returns what a kubelet with these rules does not align on a machine, in a fixed order. On a machine with
// one NUMA node, the only possible entry is SharedCPUs.
func (r Rules) Unaligned(m *topo.Machine) (out []Unaligned) {
	add := func(unaligned, choice bool, code UnalignedCode, what, remedy string) {
		if unaligned {
			out = append(out, Unaligned{Code: code, What: what, Remedy: remedy, Choice: choice})
		}
	}
	add(!r.CPU.Static, false, SharedCPUs, "no container gets CPUs of its own (cpuManagerPolicy is none)",
		"set cpuManagerPolicy: static and reservedSystemCPUs")
	if len(m.NUMAs()) < 2 {
		return out
	}
	add(!r.Memory.Static, false, MemoryAnywhere, "memory comes from any NUMA node (memoryManagerPolicy is None)",
		"set memoryManagerPolicy: Static and reservedMemory")
	none := r.Topology.Policy == None
	add(none, false, ManagersApart, "CPUs, memory and devices of a container may be on different NUMA nodes "+
		"(topologyManagerPolicy is none)", "set topologyManagerPolicy: single-numa-node, restricted or best-effort")
	add(r.Topology.Policy == BestEffort, true, BestEffortOnly, "a pod that cannot be aligned runs unaligned "+
		"(topologyManagerPolicy is best-effort)", "restricted and single-numa-node reject it")
	add(!none && r.Topology.Scope == PerContainer, true, ContainersApart, "containers of a pod may be on different "+
		"NUMA nodes (topologyManagerScope is container)", "topologyManagerScope: pod keeps them together")
	return out
}

// Forgotten returns [Rules.Unaligned] without the choices: the settings that a person should look at on any node.
func (r Rules) Forgotten(m *topo.Machine) (out []Unaligned) {
	for _, u := range r.Unaligned(m) {
		if !u.Choice {
			out = append(out, u)
		}
	}
	return out
}
