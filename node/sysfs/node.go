package sysfs

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file reads /sys/devices/system/node (Documentation/ABI/stable/sysfs-devices-node).

// node is a NUMA node of the kernel or, if the kernel has none, a package in its place.
type node struct {
	id      idset.NUMA
	claimed cpuSet // online CPUs that the kernel reports for the NUMA node; see claims
	cpus    cpuSet // the part of claimed that the NUMA node keeps; see share
	// whole and pages are the memory and the hugepages of the whole machine. They are set only if the machine's single
	// package is taken for a NUMA node: then the kubelet counts no memory, and bytes and hugepages are empty.
	whole     int64
	pages     []topo.Hugepages
	kind      MemoryKind
	bytes     int64
	hugepages []topo.Hugepages
	distances []int
}

func (n node) dir() string { return nodeFile(n.id) }

func nodeFile(id idset.NUMA) string { return fmt.Sprintf("%s/node%d", nodeDir, id) }

// nodes reads every NUMA node that has a directory, in ascending order of ids; an offline NUMA node has none. The
// result is empty if the kernel has no NUMA support.
func (t *tree) nodes(online cpuSet) ([]node, error) {
	list := t.numbered(nodeDir, "node")
	if len(list) > topo.MaxNUMAs {
		return nil, fmt.Errorf("machine in /%s: %d NUMA nodes, the most is %d", nodeDir, len(list), topo.MaxNUMAs)
	}
	var out []node
	for _, id := range list {
		n := node{id: idset.NUMA(id)}
		n.bytes = t.meminfo(path.Join(n.dir(), "meminfo"))
		n.hugepages = t.hugepages(path.Join(n.dir(), "hugepages"))
		if id > maxMaskID {
			t.warn(NUMAIDs, n.dir(), "the kubelet's topology and memory managers fail on ids above %d", maxMaskID)
		}
		if n.bytes == 0 && len(n.hugepages) > 0 {
			t.checkWrap(n)
		}
		out = append(out, n)
	}
	t.claims(out, online)
	t.distances(out)
	return out, nil
}

// maxMaskID is the largest id of a NUMA node that the kubelet's managers can put into a mask
// (pkg/kubelet/cm/topologymanager/bitmask, Add). With a larger id they dereference a nil mask.
const maxMaskID = 63

// checkWrap warns of hugepages on a NUMA node without memory, because the kubelet subtracts their size from 0 in an
// unsigned number (memorymanager/policy_static.go, getDefaultMachineState).
func (t *tree) checkWrap(n node) {
	for _, h := range n.hugepages {
		if h.Count > 0 {
			t.warn(KubeletMemory, n.dir(), "hugepages without memory: the kubelet's count of memory wraps below zero, "+
				"and its static memory manager gives it out without limit")
			return
		}
	}
}

// claims finds the online CPUs of every NUMA node as cadvisor does, by the links nodeN/cpuM (utils/sysfs,
// GetCPUsPaths). The links may differ from the file nodeN/cpulist, because the kernel updates them separately; then
// the links count. If no NUMA node has links, the files count.
func (t *tree) claims(nodes []node, online cpuSet) {
	linked := false
	for i := range nodes {
		var out []idset.CPU
		for _, id := range t.numbered(nodes[i].dir(), "cpu") {
			out = append(out, idset.CPU(id))
		}
		nodes[i].claimed = idset.Of(out...).And(online)
		linked = linked || len(out) > 0
	}
	for i, n := range nodes {
		list, ok := t.cpulist(n)
		list = list.And(online)
		switch {
		case !linked:
			nodes[i].claimed = list
		case ok && !list.Equal(n.claimed):
			t.warn(CPULinks, path.Join(n.dir(), "cpulist"),
				"CPUs %q are listed, and CPUs %q have links: believed the links, as the kubelet does",
				clip(list.String()), clip(n.claimed.String()))
		}
		nodes[i].cpus = nodes[i].claimed
	}
	if !linked && len(nodes) > 0 {
		t.warn(Missing, nodeDir, "no NUMA node has links to CPUs, as in snapshots of older releases: believed the lists")
	}
}

// cpulist reads the CPUs in a NUMA node's list, which may include offline ones, from nodeN/cpulist, or nodeN/cpumap on
// old kernels.
func (t *tree) cpulist(n node) (cpuSet, bool) {
	return t.cpus(n.dir(), []string{"cpulist"}, []string{"cpumap"})
}

// share gives every CPU to one NUMA node. If several claim it, the NUMA node whose directory comes last by name gets
// it, because the kubelet keeps the last claim (cadvisor reads node*/cpu* in that order). If no NUMA node has an
// online CPU and there are several, share returns an error.
func (t *tree) share(nodes []node, online cpuSet) error {
	order := make([]int, len(nodes))
	for i := range nodes {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return byName(int(nodes[b].id), int(nodes[a].id)) })
	var taken, twice cpuSet
	for _, i := range order {
		twice = twice.Union(nodes[i].cpus.And(taken))
		nodes[i].cpus = nodes[i].cpus.Minus(taken)
		taken = taken.Union(nodes[i].cpus)
	}
	if !twice.Empty() {
		t.warn(CPUInNumas, nodeDir,
			"CPUs %s are in several NUMA nodes: each was given to the last by name, as the kubelet does", clip(twice.String()))
	}
	left := online.Minus(taken)
	switch {
	case left.Empty():
	case !taken.Empty():
		t.warn(CPUWithoutNUMA, nodeDir, "CPUs %s are in no NUMA node: left out, as the kubelet does", clip(left.String()))
	case len(nodes) == 1:
		t.warn(CPUWithoutNUMA, nodes[0].dir(), "no CPU is in the only NUMA node: all were given to it")
		t.recordBlind(nodes[0].dir(), "no CPU is in the only NUMA node")
		nodes[0].cpus = left
	default:
		return fmt.Errorf("machine in /%s: none of %d NUMA nodes has a CPU that is online", nodeDir, len(nodes))
	}
	return nil
}

// meminfo reads MemTotal in bytes from nodeN/meminfo, or from /proc/meminfo. Without it a NUMA node has no
// memory, for the kubelet too.
func (t *tree) meminfo(file string) int64 {
	n, ok := value(t, file, parseMeminfo)
	if !ok {
		t.warn(Missing, file, "no MemTotal: the NUMA node counts as one without memory")
		if text, ok := t.text(file); ok && !strings.Contains(text, "MemTotal:") {
			t.recordBlind(file, "no MemTotal")
		}
	}
	return n
}

// hugepages reads the pages of every size from hugepages-<size>kB/nr_hugepages, including used ones
// (Documentation/admin-guide/mm/hugetlbpage.rst), in ascending order of size.
func (t *tree) hugepages(dir string) []topo.Hugepages {
	var out []topo.Hugepages
	for _, name := range t.names(dir) {
		size, err := parseHugepagesName(name)
		if err != nil {
			t.warn(Malformed, dir, "%v", err)
			t.recordBlind(dir, "%q is not the directory of a page size", clip(name))
			continue
		}
		if len(out) == topo.MaxKinds {
			t.warn(Malformed, dir, "more than %d sizes: the others are left out", topo.MaxKinds)
			break
		}
		t.seen.directory(path.Join(dir, name))
		file := path.Join(dir, name, "nr_hugepages")
		pages := t.number(file, -1, 0, int(topo.MaxBytes/size))
		if pages < 0 {
			t.warn(Missing, file, "no number: counts as 0")
			t.recordBlind(file, "no number of hugepages")
			pages = 0
		}
		out = append(out, topo.Hugepages{PageSize: size, Count: int64(pages)})
	}
	slices.SortFunc(out, func(a, b topo.Hugepages) int { return cmp.Compare(a.PageSize, b.PageSize) })
	return slices.CompactFunc(out, func(a, b topo.Hugepages) bool { return a.PageSize == b.PageSize })
}

// distances reads the row of every NUMA node from nodeN/distance. The k-th number of a row is the distance to the
// k-th NUMA node that is online, not to NUMA node k (drivers/base/node.c, node_read_distance). If one row does not
// fit, the whole machine has no distances, because half a table would mislead.
func (t *tree) distances(nodes []node) {
	var rows [][]int
	for _, n := range nodes {
		file := path.Join(n.dir(), "distance")
		row, ok := value(t, file, parseDistance)
		if text, exists := t.text(file); exists && !ok {
			t.recordBlind(file, "%q is not a row of distances", clip(text))
		}
		columns := t.columns(nodes, len(row))
		if !ok || columns == nil {
			t.warn(Distances, file, "no row that fits %d NUMA nodes: the machine is left without distances", len(nodes))
			return
		}
		own := make([]int, len(columns))
		for i, c := range columns {
			own[i] = row[c]
		}
		rows = append(rows, own)
	}
	for i := range nodes {
		nodes[i].distances = rows[i]
	}
	t.checkDistances(nodes)
}

// columns returns, for every NUMA node, the index of its distance in a row with the given number of distances. It
// returns nil if the length fits no list of NUMA nodes. The kernel writes a distance for each online NUMA node; some
// trees have one for each possible NUMA node.
func (t *tree) columns(nodes []node, length int) []int {
	for _, name := range []string{"online", "possible"} {
		set, _ := ids[idset.NUMA](t, path.Join(nodeDir, name))
		if set.Len() != length {
			continue
		}
		if at := positions(nodes, set.List()); at != nil {
			if name != "online" {
				t.warn(OddDistances, path.Join(nodeDir, name),
					"rows of distances have a column for NUMA nodes that are offline too")
			}
			return at
		}
	}
	if length != len(nodes) {
		return nil
	}
	own := make([]int, len(nodes))
	for i := range own {
		own[i] = i
	}
	return own
}

// positions returns the index of every NUMA node in an ascending list of ids, or nil if one is not in the list.
func positions(nodes []node, list []idset.NUMA) []int {
	var out []int
	for _, n := range nodes {
		at, ok := slices.BinarySearch(list, n.id)
		if !ok {
			return nil
		}
		out = append(out, at)
	}
	return out
}

// checkDistances warns of the first distances that no hardware has: asymmetric ones, or a NUMA node that is no nearer
// to itself than to another.
func (t *tree) checkDistances(nodes []node) {
	for i, n := range nodes {
		for j, m := range nodes {
			there, back := n.distances[j], m.distances[i]
			switch {
			case i == j:
			case there <= n.distances[i]:
				t.warn(OddDistances, path.Join(n.dir(), "distance"),
					"NUMA node %d is no nearer to itself (%d) than to NUMA node %d (%d)", n.id, n.distances[i], m.id, there)
				return
			case there != back && i < j:
				t.warn(OddDistances, path.Join(n.dir(), "distance"),
					"NUMA node %d is %d from NUMA node %d, and %d the other way round", m.id, there, n.id, back)
				return
			}
		}
	}
}

// packages makes a NUMA node of each package, for a kernel without NUMA nodes, as cadvisor does (utils/sysinfo,
// getCPUTopology). For the kubelet they have neither memory nor hugepages.
func (t *tree) packages(online cpuSet) []node {
	t.warn(NoNUMA, nodeDir, "the kernel knows of no NUMA nodes: each socket counts as one, as for the kubelet")
	dirs := t.numbered(cpuDir, "cpu")
	t.counted = len(dirs)
	byPackage := map[int]cpuSet{}
	for _, dir := range dirs {
		id := idset.CPU(dir)
		p := t.reportedID(topologyFile(id, "physical_package_id"))
		switch {
		case online.Has(id):
			byPackage[p] = byPackage[p].With(id)
		case p != unknown: // a package whose CPUs are offline is a NUMA node, too
			byPackage[p] = byPackage[p].Union(cpuSet{})
		}
	}
	if lone := byPackage[unknown]; !lone.Empty() && len(byPackage) > 1 {
		t.warn(CPUWithoutNUMA, cpuDir,
			"CPUs %s have no physical_package_id: left out, as the kubelet does", clip(lone.String()))
		delete(byPackage, unknown)
	} else if !lone.Empty() {
		t.recordBlind(cpuDir, "no CPU has a physical_package_id")
		byPackage = map[int]cpuSet{0: lone}
	}
	return t.packageNodes(byPackage)
}

// packageNodes makes a NUMA node of every package. A package number that topo cannot hold is replaced by a free id
// above maxMaskID: the kubelet's managers fail on such an id, as they fail on the number itself.
func (t *tree) packageNodes(byPackage map[int]cpuSet) []node {
	var out []node
	next := idset.NUMA(maxMaskID + 1)
	for _, p := range slices.Sorted(maps.Keys(byPackage)) {
		n := node{id: idset.NUMA(p), claimed: byPackage[p], cpus: byPackage[p]}
		if p < 0 || p > idset.Max {
			for hasKey(byPackage, int(next)) {
				next++
			}
			n.id = next
			next++
		}
		if p < 0 || p > maxMaskID {
			t.warn(NUMAIDs, cpuDir, "the kubelet takes %d for the id of a NUMA node, on which "+
				"its topology and memory managers fail; it is %d here", p, n.id)
		}
		out = append(out, n)
	}
	t.warn(KubeletMemory, nodeDir, "the kubelet counts no memory and no hugepages per NUMA node: "+
		"a static memory manager gives out memory without limit where some is reserved, none elsewhere, and fails on pods "+
		"that want hugepages")
	if len(out) == 1 {
		out[0].whole = t.meminfo("proc/meminfo")
		out[0].pages = t.hugepages("sys/kernel/mm/hugepages")
	}
	return out
}

func hasKey(byPackage map[int]cpuSet, id int) bool {
	_, ok := byPackage[id]
	return ok
}

// MemoryKind is the kind of memory of a NUMA node.
type MemoryKind string

// The kinds of memory. Memory that is not ordinary should go only to pods that request it, because it is slow or
// belongs to a device. The kernel keeps its own data out of it. The kubelet, however, counts such a NUMA node and its
// memory like any other.
const (
	OrdinaryMemory MemoryKind = "ordinary"
	NoMemory       MemoryKind = "none"
	// GPUMemory is the memory of a GPU that shows its memory as a NUMA node (NVIDIA Grace Hopper and later).
	GPUMemory = MemoryKind(topo.GPUMemory)
	// DAXMemory was added as a DAX device: persistent memory, CXL or high-bandwidth memory.
	DAXMemory = MemoryKind(topo.DAXMemory)
	// MovableMemory is not normal memory, and its owner is unknown.
	MovableMemory = MemoryKind(topo.MovableMemory)
)

// kinds distinguishes memory by has_memory and has_normal_memory. A NUMA node that is only in the first list has only
// movable memory, such as hot-added PMEM, CXL and GPU memory (Documentation/ABI/stable/sysfs-devices-node).
func (t *tree) kinds(nodes []node) map[idset.NUMA]MemoryKind {
	memory, known := ids[idset.NUMA](t, nodeDir+"/has_memory")
	normal, ok := ids[idset.NUMA](t, nodeDir+"/has_normal_memory")
	// No machine runs without any normal memory: an empty list is not reliable.
	known = known && ok && !normal.Empty()
	special := map[idset.NUMA]MemoryKind{}
	if known && !memory.SubsetOf(normal) {
		t.targetNode(special)
		t.numaStatus(special)
	}
	out := map[idset.NUMA]MemoryKind{}
	for _, n := range nodes {
		switch {
		case n.bytes == 0:
			out[n.id] = NoMemory
		case !known || normal.Has(n.id) || !memory.Has(n.id):
			out[n.id] = OrdinaryMemory
		default:
			out[n.id] = cmp.Or(special[n.id], MovableMemory)
			t.warn(SpecialMemory, n.dir(),
				"%s of %s memory, which is not for ordinary pods; the kubelet counts the NUMA node all the same",
				topo.FormatBytes(n.bytes), out[n.id])
		}
	}
	return out
}

// targetNode adds the NUMA nodes that DAX devices become to out. It reads them from
// /sys/bus/dax/devices/daxN.M/target_node (Documentation/ABI/testing/sysfs-bus-dax).
func (t *tree) targetNode(out map[idset.NUMA]MemoryKind) {
	for _, name := range t.names(daxDir) {
		if id := t.number(path.Join(daxDir, name, "target_node"), -1, -1, idset.Max); id >= 0 {
			out[idset.NUMA(id)] = DAXMemory
		}
	}
}

// numaStatus adds the NUMA nodes of GPU memory to out. It reads them from
// /proc/driver/nvidia/gpus/<address>/numa_status.
func (t *tree) numaStatus(out map[idset.NUMA]MemoryKind) {
	for _, name := range t.names(gpuDir) {
		if !isAddress(strings.ToLower(name)) {
			continue
		}
		if id, ok := value(t, path.Join(gpuDir, name, "numa_status"), parseNumaStatus); ok && id >= 0 {
			out[id] = GPUMemory
		}
	}
}
