package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// described is a machine from which both QEMU's command line and the expected discovery are made.
type described struct {
	name                          string
	arch, cpu                     string
	sockets, dies, cores, threads int // dies of a socket, cores of a die, threads of a core
	numas                         []describedNUMA
	distances                     [][]int
	devices                       []describedDevice
	args, modules                 []string // what the other fields do not describe
	boot, script                  string   // added to the kernel's command line; run before discovery
	offline                       idset.Set[idset.CPU]
	warnings                      []sysfs.Anomaly
}

type describedNUMA struct {
	cpus      string // list
	mib       int
	hugepages map[int]int      // pages by size in KiB
	dimm      bool             // the memory is hot-plugged, and absent when the kernel starts
	offline   bool             // that memory is never brought online
	absent    bool             // the kernel does not show the NUMA node
	kind      sysfs.MemoryKind // empty: ordinary
}

type describedDevice struct {
	qemu           string // its command line
	numa           int    // -1: on the root bus, without a NUMA node
	vendor, device uint16
	kind           sysfs.Kind
	virtual        bool // made by the script, not by the command line
}

func (m described) mib() (total int) {
	for _, n := range m.numas {
		if !n.dimm {
			total += n.mib
		}
	}
	return total
}

// config returns the guest of the machine.
func (m described) config() Config {
	board := "q35"
	if m.arch == "arm64" {
		board = "virt"
	}
	smp := fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", m.sockets*m.dies*m.cores*m.threads, m.sockets,
		m.cores, m.threads)
	if m.dies > 1 {
		smp += fmt.Sprintf(",dies=%d", m.dies)
	}
	memory := fmt.Sprintf("%dM", m.mib())
	if slices.ContainsFunc(m.numas, func(n describedNUMA) bool { return n.dimm }) {
		memory += ",slots=4,maxmem=16G"
	}
	c := Config{Arch: m.arch, Append: m.boot, Modules: m.modules,
		Args: append([]string{"-machine", board, "-cpu", m.cpu, "-smp", smp, "-m", memory}, m.args...)}
	for i, n := range m.numas {
		c.Args = append(c.Args, m.numaArgs(i, n)...)
	}
	c.Append += m.hugepages()
	for i, row := range m.distances {
		for j, d := range row {
			if i != j {
				c.Args = append(c.Args, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", i, j, d))
			}
		}
	}
	c.Args = append(c.Args, m.deviceArgs()...)
	return c
}

// hugepages returns the part of the kernel's command line that allocates the machine's hugepages, with every page size
// once.
func (m described) hugepages() (line string) {
	counts := map[int][]string{}
	for i, n := range m.numas {
		for kib, count := range n.hugepages {
			counts[kib] = append(counts[kib], fmt.Sprintf("%d:%d", i, count))
		}
	}
	for _, kib := range slices.Sorted(maps.Keys(counts)) {
		line += fmt.Sprintf(" hugepagesz=%dK hugepages=%s", kib, strings.Join(counts[kib], ","))
	}
	return line
}

func (m described) numaArgs(i int, n describedNUMA) (out []string) {
	numa := fmt.Sprintf("node,nodeid=%d", i)
	if n.mib > 0 {
		out = append(out, "-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", i, n.mib))
	}
	if n.mib > 0 && !n.dimm {
		numa += fmt.Sprintf(",memdev=m%d", i)
	}
	for part := range strings.SplitSeq(n.cpus, ",") {
		if part != "" {
			numa += ",cpus=" + part
		}
	}
	out = append(out, "-numa", numa)
	if n.dimm {
		out = append(out, "-device", fmt.Sprintf("pc-dimm,id=dimm%d,memdev=m%d,node=%d", i, i, i))
	}
	return out
}

// deviceArgs puts the devices of every NUMA node below a host bridge of its own.
func (m described) deviceArgs() (out []string) {
	bridged := map[int]bool{}
	for i, d := range m.devices {
		switch {
		case d.virtual:
		case d.numa < 0:
			out = append(out, "-device", d.qemu+",bus=pcie.0")
		default:
			if !bridged[d.numa] {
				bridged[d.numa] = true
				out = append(out, "-device", fmt.Sprintf("pxb-pcie,id=bridge%d,bus=pcie.0,bus_nr=%d,numa_node=%d", d.numa,
					32*(d.numa+1), d.numa))
			}
			out = append(out, "-device", fmt.Sprintf("pcie-root-port,id=port%d,bus=bridge%d,chassis=%d", i, d.numa, i+1),
				"-device", fmt.Sprintf("%s,bus=port%d", d.qemu, i))
		}
	}
	return out
}

// spec returns what discovery must find.
func (m described) spec() topo.Spec {
	var out topo.Spec
	home := map[idset.CPU]idset.NUMA{}
	for i, n := range m.numas {
		for id := range set(n.cpus).All() {
			home[id] = m.id(i)
		}
		if n.absent {
			continue
		}
		numa := topo.NUMA{ID: m.id(i)}
		for _, kib := range m.pageSizes() {
			numa.Hugepages = append(numa.Hugepages, topo.Hugepages{PageSize: int64(kib) << 10, Count: int64(n.hugepages[kib])})
		}
		for j, other := range m.numas {
			if !other.absent {
				numa.Distances = append(numa.Distances, m.distance(i, j))
			}
		}
		out.NUMAs = append(out.NUMAs, numa)
	}
	// QEMU numbers the threads of a core in a row, then cores, dies and sockets.
	for core := range m.sockets * m.dies * m.cores {
		var cpus idset.Set[idset.CPU]
		for thread := range m.threads {
			cpus = cpus.With(idset.CPU(core*m.threads + thread))
		}
		die := core / m.cores
		c := topo.CoreSpec{NUMA: home[cpus.Min()], Socket: idset.Socket(die / m.dies), L3: die, CPUs: cpus.Minus(m.offline)}
		if !c.CPUs.Empty() {
			out.Cores = append(out.Cores, c)
		}
	}
	return out
}

// id returns the kernel's id of a NUMA node. A device tree names ids; ACPI names domains, which the kernel numbers
// consecutively.
func (m described) id(numa int) idset.NUMA {
	id := numa
	for _, n := range m.numas[:max(0, numa)] {
		if n.absent && m.arch != "arm64" {
			id--
		}
	}
	return idset.NUMA(id)
}

// distance returns the described distance, or else the kernel's default.
func (m described) distance(i, j int) int {
	switch {
	case m.distances != nil:
		return m.distances[i][j]
	case i == j:
		return 10
	}
	return 20
}

// pageSizes are the sizes in KiB of hugepages that the kernels here have, in ascending order.
func (m described) pageSizes() []int {
	if m.arch == "arm64" {
		return []int{64, 2 << 10, 32 << 10, 1 << 20}
	}
	return []int{2 << 10, 1 << 20}
}

// describe writes a machine as lines that can be compared; memory is left out.
func describe(s topo.Spec) (lines []string) {
	for _, n := range s.NUMAs {
		line := fmt.Sprintf("numa %d distances %v", n.ID, n.Distances)
		for _, h := range n.Hugepages {
			line += fmt.Sprintf(" %s %d", h.Kind(), h.Count)
		}
		lines = append(lines, line)
	}
	groups := map[int]idset.Set[idset.CPU]{}
	for _, c := range s.Cores {
		groups[c.L3] = groups[c.L3].Union(c.CPUs)
	}
	for _, c := range s.Cores {
		lines = append(lines, fmt.Sprintf("core %s numa %d socket %d l3 %s", c.CPUs, c.NUMA, c.Socket, groups[c.L3]))
	}
	slices.Sort(lines)
	return lines
}
