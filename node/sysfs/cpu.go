package sysfs

import (
	"fmt"
	"path"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads /sys/devices/system/cpu/cpuN/topology (Documentation/admin-guide/cputopology.rst).

// cpu is what the kernel says of one CPU; ids that it does not tell are unknown.
type cpu struct {
	pkg, core int
	threads   cpuSet // of its core, the CPU itself included
}

const unknown = -1 << 31

// maxKernelID bounds ids of cores and packages, which firmware chooses: any int of the kernel.
const maxKernelID = 1<<31 - 1

func topologyFile(id idset.CPU, name string) string {
	return fmt.Sprintf("%s/cpu%d/topology/%s", cpuDir, id, name)
}

func (t *tree) topology(id idset.CPU) cpu {
	c := cpu{
		pkg:  t.number(topologyFile(id, "physical_package_id"), unknown, -1, maxKernelID),
		core: t.number(topologyFile(id, "core_id"), unknown, -1, maxKernelID),
	}
	// core_id is unique per package or die alone, so cores are known by their threads.
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

// cores makes the cores of every numa, with their sockets and L3 groups.
func (t *tree) cores(nodes []node) []topo.CoreSpec {
	cpus := map[idset.CPU]cpu{}
	for _, n := range nodes {
		for id := range n.cpus.All() {
			cpus[id] = t.topology(id)
		}
	}
	sockets := t.sockets(cpus)
	var out []topo.CoreSpec
	for _, n := range nodes {
		for left := n.cpus; !left.Empty(); {
			id := left.Min()
			core := t.threads(id, n, left, cpus)
			left = left.Minus(core)
			out = append(out, topo.CoreSpec{NUMA: n.id, Socket: sockets[cpus[id].pkg], CPUs: core})
		}
	}
	t.checkCores(out, cpus)
	t.groups(out, cpus)
	return out
}

// threads returns the CPUs of the core of a CPU: those that it names, are in its numa and are not yet of
// another core.
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
		t.warn(Siblings, file, "CPUs %s of the core are not in numa %d: the core was cut", clip(elsewhere.String()), n.id)
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

// sockets numbers the packages: by physical_package_id where that is a number that can be kept, and
// with the next free number where it is missing, negative or beyond bounds.
func (t *tree) sockets(cpus map[idset.CPU]cpu) map[int]idset.Socket {
	out, low := map[int]idset.Socket{}, map[int]idset.CPU{}
	top := idset.Socket(-1)
	var odd []int
	for id, c := range cpus {
		if old, ok := low[c.pkg]; !ok || id < old {
			low[c.pkg] = id
		}
	}
	for pkg := range low {
		if !idset.Valid(pkg) {
			odd = append(odd, pkg)
			continue
		}
		out[pkg] = idset.Socket(pkg)
		top = max(top, out[pkg])
	}
	slices.Sort(odd)
	for _, pkg := range odd {
		top++
		out[pkg] = top
		t.warn(Sockets, topologyFile(low[pkg], "physical_package_id"), "not a usable number: the socket counts as %d", top)
	}
	return out
}

// checkCores says where the kubelet cuts cores otherwise: it knows a core of a numa by core_id and
// physical_package_id (cadvisor utils/sysinfo, getCoresInfo), and skips a CPU that lacks one of them.
func (t *tree) checkCores(cores []topo.CoreSpec, cpus map[idset.CPU]cpu) {
	type key struct {
		numa      idset.NUMA
		pkg, core int
	}
	merged := map[key]cpuSet{}
	for _, c := range cores {
		for id := range c.CPUs.All() {
			if cpus[id].pkg == unknown || cpus[id].core == unknown {
				t.warn(KubeletCores, topologyFile(id, "core_id"), "the kubelet leaves out CPUs without core_id and physical_package_id")
				return
			}
			k := key{c.NUMA, cpus[id].pkg, cpus[id].core}
			merged[k] = merged[k].With(id)
		}
	}
	for _, c := range cores {
		id := c.CPUs.Min()
		if m := merged[key{c.NUMA, cpus[id].pkg, cpus[id].core}]; !m.Equal(c.CPUs) {
			t.warn(KubeletCores, topologyFile(id, "core_id"), "the kubelet takes CPUs %s for one core, which has CPUs %s",
				clip(m.String()), clip(c.CPUs.String()))
			return
		}
	}
}
