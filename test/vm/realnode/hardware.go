package realnode

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// Bounds of a guest: QEMU translates every instruction, and uses the host's memory.
const (
	maxCPUs  = 32
	maxNUMAs = 16
	maxBytes = 64 << 30
	mebibyte = 1 << 20
)

// qemuArgs returns the arguments of QEMU for a machine, and the kernel's command line for its hugepages. QEMU numbers
// CPUs thread by thread, then core by core, then socket by socket, and makes all sockets and cores equal; other
// machines are refused.
func qemuArgs(m *topo.Machine) (args []string, cmdline string, err error) {
	sockets, threads, err := socketsAndThreads(m)
	if err != nil {
		return nil, "", err
	}
	var total int64
	var nodes, distances []string
	for i, n := range m.NUMAs() {
		if int(n.ID) != i {
			return nil, "", fmt.Errorf("numa ids are not 0 to %d", len(m.NUMAs())-1)
		}
		if n.Bytes <= 0 || n.Bytes%mebibyte != 0 {
			return nil, "", fmt.Errorf("NUMA node %d has %d bytes of memory, want a multiple of 1Mi", n.ID, n.Bytes)
		}
		total += n.Bytes
		node := fmt.Sprintf("node,nodeid=%d,memdev=m%d", i, i)
		if !n.CPUs.Empty() {
			for part := range strings.SplitSeq(n.CPUs.String(), ",") {
				node += ",cpus=" + part
			}
		}
		nodes = append(nodes, "-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", i, n.Bytes/mebibyte),
			"-numa", node)
		for j, d := range n.Distances {
			if j != i {
				distances = append(distances, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", i, j, d))
			}
		}
	}
	if total > maxBytes {
		return nil, "", fmt.Errorf("memory is %s, at most %s", topo.FormatBytes(total), topo.FormatBytes(maxBytes))
	}
	cpus := m.CPUs().Len()
	args = slices.Concat([]string{
		"-machine", "q35",
		// Other vendors' models hide threads from a guest without hardware support.
		"-cpu", "max,vendor=GenuineIntel",
		"-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", cpus, sockets, cpus/sockets/threads, threads),
		"-m", strconv.FormatInt(total/mebibyte, 10),
	}, nodes, distances)
	return args, hugepages(m), nil
}

// socketsAndThreads returns the number of sockets and the threads of each core.
func socketsAndThreads(m *topo.Machine) (sockets, threads int, err error) {
	cpus, cores := m.CPUs(), m.Cores()
	switch {
	case cpus.Len() == 0 || cpus.Len() > maxCPUs || cpus.Min() != 0 || int(cpus.Max()) != cpus.Len()-1:
		return 0, 0, fmt.Errorf("CPUs are %s, want 0 to at most %d", cpus, maxCPUs-1)
	case len(m.NUMAs()) > maxNUMAs:
		return 0, 0, fmt.Errorf("%d NUMA nodes, at most %d", len(m.NUMAs()), maxNUMAs)
	}
	sockets, threads = len(m.Sockets()), m.CoreCPUs(cores[0]).Len()
	perSocket := cpus.Len() / sockets
	for id := range cpus.All() {
		c, _ := m.CPU(id)
		if c.Core != idset.Core(int(id)/threads*threads) {
			return 0, 0, fmt.Errorf("CPU %d is not of the core of CPU %d", id, int(id)/threads*threads)
		}
		if c.Socket != m.Sockets()[min(int(id)/perSocket, sockets-1)] {
			return 0, 0, fmt.Errorf("CPU %d is on socket %d: sockets are not equal ranges of CPUs", id, c.Socket)
		}
	}
	if perSocket*sockets != cpus.Len() || perSocket%threads != 0 {
		return 0, 0, errors.New("sockets are not equal")
	}
	return sockets, threads, nil
}

// hugepages returns the part of the kernel's command line that reserves each NUMA node's pages at boot
// (Documentation/admin-guide/kernel-parameters, hugepages).
func hugepages(m *topo.Machine) string {
	bySize := map[int64][]string{}
	var sizes []int64
	for _, n := range m.NUMAs() {
		for _, h := range n.Hugepages {
			if bySize[h.PageSize] == nil {
				sizes = append(sizes, h.PageSize)
			}
			bySize[h.PageSize] = append(bySize[h.PageSize], fmt.Sprintf("%d:%d", n.ID, h.Count))
		}
	}
	slices.Sort(sizes)
	var out []string
	for _, s := range sizes {
		out = append(out, fmt.Sprintf("hugepagesz=%dM hugepages=%s", s/mebibyte, strings.Join(bySize[s], ",")))
	}
	return strings.Join(out, " ")
}
