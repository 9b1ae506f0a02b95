// Package sysfs discovers the real machine: it reads a Linux /sys and /proc, given as an [fs.FS] rooted at "/", and
// makes a [topo.Machine] of it.
//
// The machine is what the kubelet takes it for, because predictions depend only on that. The kubelet gets its view from
// cadvisor, and the package repeats cadvisor's errors. The machine has NUMA nodes, cores, sockets and L3 groups; some
// NUMA nodes may have no CPUs, or memory that is not for ordinary pods. If the hardware differs from the kubelet's
// view, the machine of the hardware is returned as well, and a [Warning] names the difference. If a kernel or its
// firmware contradicts itself, the machine is still usable, and a warning names the value in use.
//
// Invariant: every deviation leaves a warning. A tree that describes no machine at all (no CPU, more NUMA nodes or CPUs
// than [topo] holds) is refused with one error. A file or a directory beyond a fixed bound counts as absent, and its
// warning names the bound. The package only reads; only [Host] depends on the operating system.
//
// Every function that reads is named after the kernel's file and is separate from the function that parses.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

type cpuSet = idset.Set[idset.CPU]

// Found is the result of discovery.
type Found struct {
	// Machine is the machine in the kubelet's view. It has no devices, because the kubelet reports them.
	Machine *topo.Machine
	// Hardware is the machine in the hardware's view, or nil if it is the same. Its cores, sockets, L3 groups and
	// memory may differ, and it may have CPUs that the kubelet leaves out.
	Hardware *topo.Machine
	// Kinds has the kind of memory of every NUMA node of the machine.
	Kinds    map[idset.NUMA]MemoryKind
	Warnings []Warning // in the order in which they were found, each once
}

// Discover reads the machine in a tree with the paths "sys/..." and "proc/...".
func Discover(fsys fs.FS) (*Found, error) { return NewSurvey(fsys).Machine() }

// Survey reads the machine and the PCI functions of one tree, and opens each file once for both. It is for one
// goroutine, and for one point in time: later calls do not see later changes.
type Survey struct{ tree *tree }

// NewSurvey returns a survey of a tree with the paths "sys/..." and "proc/...". It reads nothing yet.
func NewSurvey(fsys fs.FS) *Survey { return &Survey{newTree(fsys)} }

// Machine does what [Discover] does for the tree of the survey.
func (s *Survey) Machine() (*Found, error) { return discover(s.tree) }

// Functions does what [PCI] does, for the tree of the survey; m is the machine that Machine found. The warnings are
// all warnings of the survey so far, including the warnings of Machine.
func (s *Survey) Functions(m *topo.Machine) ([]Function, []Warning, error) {
	out, err := s.tree.functions(m)
	return out, s.tree.warnings.list(), err
}

// discover makes both machines of a tree, the kubelet's and the hardware's. First it finds the NUMA nodes, or takes
// packages for NUMA nodes if the kernel has none, and gives each online CPU to one of them. Then it reads the
// topology of these CPUs, and makes cores of it in two ways.
func discover(t *tree) (*Found, error) {
	online, err := t.online()
	if err != nil {
		return nil, err
	}
	nodes, err := t.nodes(online)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		nodes = t.packages(online)
	} else if err := t.share(nodes, online); err != nil {
		return nil, err
	}
	kinds := t.kinds(nodes)
	for i, n := range nodes {
		nodes[i].kind = kinds[n.id]
	}
	cpus := t.topologies(nodes)
	hardware, err := machineOf(nodes, t.hardwareCores(nodes, cpus), true)
	if err != nil {
		return nil, fmt.Errorf("machine in /sys: %w", err)
	}
	out := &Found{Kinds: kinds}
	if out.Machine, err = t.kubeletMachine(nodes, cpus, hardware); err != nil {
		return nil, fmt.Errorf("machine in /sys, as the kubelet has it: %w", err)
	}
	if !alike(out.Machine, hardware) {
		out.Hardware = hardware
	}
	t.warnBalancing()
	out.Warnings = t.warnings.list()
	return out, nil
}

// warnBalancing warns where the kernel moves memory and threads by itself
// (Documentation/admin-guide/sysctl/kernel.rst).
func (t *tree) warnBalancing() {
	const file = "proc/sys/kernel/numa_balancing"
	if mode := t.number(file, 0, 0, 3); mode != 0 {
		t.warn(NUMABalancing, file, "is %d: the kernel unmaps memory to see who uses it, and moves memory and threads of "+
			"pods that are not pinned", mode)
	}
}

// kubeletMachine makes the machine of the kubelet's view. If cadvisor would report no topology, the machine has the
// cores of the hardware instead.
func (t *tree) kubeletMachine(nodes []node, cpus map[idset.CPU]cpu, hardware *topo.Machine) (*topo.Machine, error) {
	cores := t.kubeletCores(nodes, cpus)
	if len(cores) == 0 {
		t.recordBlind(cpuDir, "no CPU has core_id and physical_package_id")
	}
	if t.blind {
		return machineOf(nodes, hardware.Spec().Cores, false)
	}
	m, err := machineOf(nodes, cores, false)
	if err == nil {
		t.compareViews(m, hardware)
	}
	return m, err
}

// machineOf makes a machine of NUMA nodes and cores. If hardware is true, the machine includes memory that the
// kubelet does not count.
func machineOf(nodes []node, cores []topo.CoreSpec, hardware bool) (*topo.Machine, error) {
	spec := topo.Spec{Cores: cores}
	for _, n := range nodes {
		numa := topo.NUMA{ID: n.id, Bytes: n.bytes, Hugepages: n.hugepages, Distances: n.distances}
		if hardware && n.whole > 0 {
			numa.Bytes, numa.Hugepages = n.whole, n.pages
		}
		if n.kind != OrdinaryMemory && n.kind != NoMemory {
			numa.MemoryKind = topo.MemoryKind(n.kind)
		}
		spec.NUMAs = append(spec.NUMAs, numa)
	}
	return topo.New(spec)
}

// alike reports whether two machines are equal except for the numbers of their L3 groups.
func alike(a, b *topo.Machine) bool {
	sa, sb := a.Spec(), b.Spec()
	for _, s := range []topo.Spec{sa, sb} {
		for i := range s.Cores {
			s.Cores[i].L3 = 0
		}
	}
	if !reflect.DeepEqual(sa, sb) {
		return false
	}
	for _, g := range a.Groups(topo.L3s) {
		if !b.GroupOf(topo.L3s, g.CPUs.Min()).CPUs.Equal(g.CPUs) {
			return false
		}
	}
	return true
}

// online reads the online CPUs from /sys/devices/system/cpu/online. Where that file is missing or empty, it reads the
// file of each CPU. A CPU that cannot be unplugged has no file of its own, and is online
// (Documentation/core-api/cpu_hotplug.rst).
func (t *tree) online() (cpuSet, error) {
	const file = cpuDir + "/online"
	set, ok := ids[idset.CPU](t, file)
	if !ok || set.Empty() {
		var all []idset.CPU
		for _, id := range t.numbered(cpuDir, "cpu") {
			if t.number(fmt.Sprintf("%s/cpu%d/online", cpuDir, id), 1, 0, 1) == 1 {
				all = append(all, idset.CPU(id))
			}
		}
		if set = idset.Of(all...); ok && !set.Empty() {
			t.recordBlind(file, "no CPU is online")
			t.warn(Malformed, file, "no CPU is online: believed the directories of CPUs instead")
		}
	}
	if set.Empty() {
		return set, errors.New("machine in /sys: no CPU is online in /" + file)
	}
	if n := set.Len(); n > topo.MaxCPUs {
		return set, fmt.Errorf("machine in /sys: %d CPUs are online, the most is %d", n, topo.MaxCPUs)
	}
	return set, nil
}
