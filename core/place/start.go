package place

import (
	"fmt"
	"slices"

	"github.com/tenon-numa/tenon/core/topo"
)

// This file finds the configurations with which a kubelet does not start. Machines that a kubelet cannot serve are in
// obstacles.go. All facts are from Kubernetes 1.30 to 1.37.

// Startup is what decides, beside rules and machine, whether a kubelet starts.
type Startup struct {
	// Gates are the feature gates that are set; a gate that is not in the map has its default.
	Gates map[string]bool
	// Named are the options of the topology and CPU managers that the configuration names, whatever their values are.
	// Options that the rules turn on may be left out.
	Named []string
	// Kept is what the kubelet keeps from pods (systemReserved, kubeReserved and evictionHard added up): "cpu" in
	// thousandths, "memory" in bytes. Unknown amounts are left out.
	Kept map[string]int64
}

// StartFault is one reason why a kubelet does not start with a configuration, or starts and counts wrongly.
type StartFault struct {
	// Setting is the field of the KubeletConfiguration that has to change.
	Setting string
	// Text describes the fault and names the field.
	Text string
	// Gate is set where only a feature gate is missing.
	Gate bool
	// Starts is set if the kubelet starts in spite of the fault, and then serves pods wrongly.
	Starts bool
}

// starting collects the faults of a configuration.
type starting struct {
	Rules
	Startup
	machine *topo.Machine
	faults  []StartFault
}

// add adds a fault about a setting if the argument fault is true.
func (s *starting) add(fault bool, setting, format string, args ...any) {
	if fault {
		s.faults = append(s.faults, StartFault{Setting: setting, Text: setting + ": " + fmt.Sprintf(format, args...)})
	}
}

// StartFaults returns why a kubelet with these rules does not start on a machine, or starts and counts wrongly
// (StartFault.Starts). The order is fixed. If there is no fault, the kubelet starts, as far as managers and
// reservations decide; see [Rules.Obstacles] for machines that no configuration mends. The rules must pass
// [Rules.Validate].
func (r Rules) StartFaults(m *topo.Machine, s Startup) []StartFault {
	if r.Arbiter == ByAgent { // the kubelet's managers are off, so these are not its rules
		return nil
	}
	x := &starting{Rules: r, Startup: s, machine: m}
	x.cpuOptions()
	x.topologyOptions()
	x.socketAlignment()
	x.add(r.CPU.Static && r.CPU.Reserved.Empty(), cpuPolicyField,
		"static needs reservedSystemCPUs, or cpu in systemReserved or kubeReserved")
	x.reservedMemory()
	x.capacity()
	return x.faults
}

// Fields of a KubeletConfiguration.
const (
	cpuPolicyField       = "cpuManagerPolicy"
	cpuOptionsField      = "cpuManagerPolicyOptions"
	topologyOptionsField = "topologyManagerPolicyOptions"
	reservedMemoryField  = "reservedMemory"
)

// exclusive has pairs of options of the CPU manager; a kubelet starts with at most one option of each pair
// (cpumanager/policy_options.go, NewStaticPolicyOptions).
var exclusive = [...][2]string{{"full-pcpus-only", "distribute-cpus-across-cores"},
	{"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"}}

// optionsOn reports, by name, whether the rules turn an option on.
func (r Rules) optionsOn() map[string]bool {
	return map[string]bool{
		"full-pcpus-only":                  r.CPU.FullPCPUsOnly,
		"distribute-cpus-across-numa":      r.CPU.DistributeAcrossNUMA,
		"align-by-socket":                  r.CPU.AlignBySocket,
		"distribute-cpus-across-cores":     r.CPU.DistributeAcrossCores,
		"strict-cpu-reservation":           r.CPU.StrictReservation,
		"prefer-align-cpus-by-uncorecache": r.CPU.PreferAlignByUncoreCaches,
		"prefer-closest-numa-nodes":        r.Topology.PreferClosest,
		"max-allowable-numa-nodes":         r.Topology.MaxNUMAs > 0,
	}
}

// cpuOptions checks the options of the CPU manager. Policy none accepts no option at all, not even one that is
// "false" (cpumanager/policy_none.go, NewNonePolicy).
func (s *starting) cpuOptions() {
	on := s.optionsOn()
	for _, o := range options {
		if o.Topology || !on[o.Name] && !slices.Contains(s.Named, o.Name) {
			continue
		}
		if !s.CPU.Static {
			s.add(true, cpuOptionsField, "%s needs cpuManagerPolicy: static", o.Name)
			continue
		}
		s.available(o, cpuOptionsField, "CPUManagerPolicy")
	}
	for _, pair := range exclusive {
		s.add(s.CPU.Static && on[pair[0]] && on[pair[1]], cpuOptionsField, "%s and %s exclude each other", pair[0], pair[1])
	}
}

// topologyOptions checks the options of the topology manager, which reads none under policy none
// (topologymanager/topology_manager.go, NewManager).
func (s *starting) topologyOptions() {
	on := s.optionsOn()
	for _, o := range options {
		if o.Topology && s.Topology.Policy != None && (on[o.Name] || slices.Contains(s.Named, o.Name)) {
			s.available(o, topologyOptionsField, "TopologyManagerPolicy")
		}
	}
}

// available adds a fault if the release lacks an option or a feature gate is missing (CheckPolicyOptionAvailable of
// both managers). A gate is needed whatever the value of the option is.
func (s *starting) available(o Option, field, gates string) {
	r := s.Release.orDefault()
	if r < o.Since {
		s.add(true, field, "kubelets have %s since %s", o.Name, o.Since)
		return
	}
	gate, all := gates+"AlphaOptions", "AllAlpha"
	on := false
	if !o.NeedsAlpha(r) {
		gate, all, on = gates+"BetaOptions", "AllBeta", true
	}
	if by, ok := s.Gates[all]; ok {
		on = by
	}
	if by, ok := s.Gates[gate]; ok {
		on = by
	}
	if on || o.Stable > 0 && r >= o.Stable {
		return
	}
	s.add(true, field, "%s needs the feature gate %s", o.Name, gate)
	s.faults[len(s.faults)-1].Gate = true
}

// socketAlignment checks align-by-socket. It follows cpumanager/policy_options.go, ValidateStaticPolicyOptions. It
// counts only the NUMA nodes that have CPUs.
func (s *starting) socketAlignment() {
	if !s.CPU.Static || !s.CPU.AlignBySocket {
		return
	}
	s.add(s.Topology.Policy == SingleNUMA, cpuOptionsField,
		"align-by-socket and topologyManagerPolicy: single-numa-node exclude each other")
	sockets, numas := len(s.machine.Sockets()), s.machine.MaskOfCPUs(s.machine.CPUs()).Len()
	s.add(sockets > numas, cpuOptionsField, "align-by-socket is not for machines with more sockets (%d) than NUMA nodes "+
		"with CPUs (%d)", sockets, numas)
}

// reservedMemory checks the reservations of NUMA nodes. It follows
// apis/config/validation/validation_reserved_memory.go, and for the policy Static memorymanager/memory_manager.go,
// validateReservedMemory: what is reserved of each kind must equal what systemReserved, kubeReserved and evictionHard
// keep from pods. These cannot name hugepages (cmd/kubelet/app/server.go, parseResourceList), so every reservation of
// hugepages is a fault.
func (s *starting) reservedMemory() {
	for _, x := range s.Memory.Reserved {
		s.add(x.Bytes == 0, reservedMemoryField, "NUMA node %d: %s may not be 0; leave it out", x.NUMA, x.Kind)
		s.add(s.Memory.Static && x.Kind != topo.Memory && x.Bytes > 0, reservedMemoryField, "NUMA node %d: no kubelet "+
			"keeps %s from pods: leave them out", x.NUMA, x.Kind)
		at, ok := s.machine.Position(x.NUMA)
		if !ok || !s.Memory.Static || x.Kind != topo.Memory {
			continue
		}
		if have := s.machine.NUMAs()[at].Balance(topo.Memory); x.Bytes > have {
			s.add(true, reservedMemoryField, "NUMA node %d has %s beside its hugepages, less than the %s that are reserved: "+
				"the kubelet starts, its count falls below zero, and it gives out memory that is not there", x.NUMA,
				topo.FormatBytes(max(0, have)), topo.FormatBytes(x.Bytes))
			s.faults[len(s.faults)-1].Starts = true
		}
	}
	if !s.Memory.Static {
		return
	}
	sum := s.Memory.Reserves(topo.Memory)
	s.add(sum == 0, reservedMemoryField, "memoryManagerPolicy: Static needs memory of a NUMA node")
	kept, known := s.Kept[topo.Memory]
	s.add(known && sum > 0 && sum != kept, reservedMemoryField, "its sum is %s, and the kubelet keeps %s from pods "+
		"(systemReserved, kubeReserved and evictionHard): they must be equal", topo.FormatBytes(sum),
		topo.FormatBytes(max(0, kept)))
}

// capacity checks that the machine has what the kubelet keeps from pods. It follows
// cm/node_container_manager_linux.go, validateNodeAllocatable.
func (s *starting) capacity() {
	const field = "systemReserved, kubeReserved"
	var bytes int64
	for _, n := range s.machine.NUMAs() {
		bytes += n.Bytes
	}
	s.add(s.Kept[topo.Memory] > bytes, field+", evictionHard", "they keep %s of memory from pods, and the machine has %s",
		topo.FormatBytes(s.Kept[topo.Memory]), topo.FormatBytes(bytes))
	cpus := s.machine.CPUs().Len()
	s.add(s.Kept["cpu"] > int64(cpus)*1000, field, "they keep %dm CPU from pods, and the machine has %d CPUs",
		s.Kept["cpu"], cpus)
}
