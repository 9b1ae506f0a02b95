package sysfs

import (
	"fmt"
	"path"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads /sys/devices/system/cpu/cpuN/topology (Documentation/admin-guide/cputopology.rst).

// cpu is the kernel's data about one CPU.
type cpu struct {
	pkg, core int    // ids of its package and core; unknown if the kernel does not report them
	threads   cpuSet // the CPUs of its core, including the CPU itself
}

// unknown stands for an id that the kernel does not report.
const unknown = -1 << 31

// maxKernelID bounds the ids of cores and packages. Firmware chooses them, so they may be any number that the kernel
// can hold in an int.
const maxKernelID = 1<<31 - 1

func topologyFile(id idset.CPU, name string) string {
	return fmt.Sprintf("%s/cpu%d/topology/%s", cpuDir, id, name)
}

// reportedID reads an id that cadvisor needs. Without the file cadvisor leaves out the CPU; if the text is not a
// number, cadvisor reports nothing at all. In both cases the result is unknown.
func (t *tree) reportedID(file string) int {
	n := t.number(file, unknown, -1, maxKernelID)
	if n == unknown {
		if text, ok := t.text(file); ok {
			t.recordBlind(file, "%q is not an id", clip(text))
		}
	}
	return n
}

// topology reads the data about one CPU. A CPU without lists of threads counts as a core of its own.
func (t *tree) topology(id idset.CPU) cpu {
	c := cpu{
		pkg:  t.reportedID(topologyFile(id, "physical_package_id")),
		core: t.reportedID(topologyFile(id, "core_id")),
	}
	// core_id is unique only per package or die, so cores are identified by their threads.
	set, ok := t.cpus(path.Dir(topologyFile(id, "core_id")),
		[]string{"core_cpus_list", "thread_siblings_list"}, []string{"core_cpus", "thread_siblings"})
	if !ok {
		t.warn(Missing, topologyFile(id, "core_cpus_list"), "the CPU counts as a core of its own")
	}
	if ok && !set.Has(id) {
		t.warn(Siblings, topologyFile(id, "core_cpus_list"), "the list lacks CPU %d itself", id)
	}
	c.threads = set.With(id)
	return c
}

// topologies reads every CPU that a NUMA node has.
func (t *tree) topologies(nodes []node) map[idset.CPU]cpu {
	cpus := map[idset.CPU]cpu{}
	for _, n := range nodes {
		for id := range n.cpus.All() {
			cpus[id] = t.topology(id)
		}
	}
	return cpus
}

// hardwareCores makes the cores of every NUMA node in the hardware's view, with sockets and L3 groups.
func (t *tree) hardwareCores(nodes []node, cpus map[idset.CPU]cpu) []topo.CoreSpec {
	var out []topo.CoreSpec
	for _, n := range nodes {
		for left := n.cpus; !left.Empty(); {
			id := left.Min()
			core := t.threads(id, n, left, cpus)
			left = left.Minus(core)
			out = append(out, topo.CoreSpec{NUMA: n.id, Socket: idset.Socket(cpus[id].pkg), CPUs: core})
		}
	}
	t.checkSockets(out)
	renumber(out, func(c *topo.CoreSpec) *idset.Socket { return &c.Socket }, idset.Max)
	t.groups(out, cpus)
	return out
}

// threads returns the CPUs that make a core with the CPU id: the threads that the kernel lists for it, without
// threads outside the NUMA node n, and without CPUs of cores that were made before. left are the CPUs of n that have
// no core yet. Contradictory lists leave a warning.
func (t *tree) threads(id idset.CPU, n node, left cpuSet, cpus map[idset.CPU]cpu) cpuSet {
	file := topologyFile(id, "core_cpus_list")
	var known []idset.CPU
	for sibling := range cpus[id].threads.All() {
		if _, ok := cpus[sibling]; ok {
			known = append(known, sibling)
		}
	}
	core := idset.Of(known...)
	if elsewhere := core.Minus(n.cpus); !elsewhere.Empty() {
		t.warn(Siblings, file, "CPUs %s of the core are not in NUMA node %d: the core was cut",
			clip(elsewhere.String()), n.id)
	}
	if other := core.And(n.cpus).Minus(left); !other.Empty() {
		t.warn(Siblings, file, "CPUs %s of the core are of another core already", clip(other.String()))
	}
	core = core.And(left)
	for sibling := range core.All() {
		if !core.SubsetOf(cpus[sibling].threads) || cpus[sibling].pkg != cpus[id].pkg {
			t.warn(Siblings, file, "CPU %d does not say the same of its core", sibling)
			break
		}
	}
	return core
}

// checkSockets warns of packages whose number topo cannot hold. The caller then numbers all sockets in the order of
// their packages' numbers.
func (t *tree) checkSockets(cores []topo.CoreSpec) {
	warned := map[idset.Socket]bool{}
	for _, c := range cores {
		if !idset.Valid(int(c.Socket)) && !warned[c.Socket] {
			warned[c.Socket] = true
			t.warn(Sockets, topologyFile(c.CPUs.Min(), "physical_package_id"),
				"not a usable number: sockets are numbered from 0")
		}
	}
}
