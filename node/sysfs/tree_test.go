package sysfs_test

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
)

// kernel is a tree as a kernel would show it, made of a machine; discovery must find that machine again.
type kernel fstest.MapFS

func (k kernel) Open(name string) (fs.File, error)      { return fstest.MapFS(k).Open(name) }
func (k kernel) ReadLink(name string) (string, error)   { return fstest.MapFS(k).ReadLink(name) }
func (k kernel) Lstat(name string) (fs.FileInfo, error) { return fstest.MapFS(k).Lstat(name) }
func (k kernel) put(name, format string, args ...any) {
	k[name] = &fstest.MapFile{Data: fmt.Appendf(nil, format+"\n", args...)}
}
func (k kernel) link(name, target string) {
	k[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
}
func (k kernel) remove(pattern string) (removed int) {
	for name := range k {
		if ok, err := path.Match(pattern, name); err == nil && ok || strings.HasPrefix(name, pattern+"/") {
			delete(k, name)
			removed++
		}
	}
	return removed
}

// show writes the files of a machine.
func show(m *topo.Machine) kernel {
	k := kernel{}
	k.put(cpuDir+"/online", "%s", m.CPUs())
	var numas, withCPUs, withMemory []idset.NUMA
	for _, n := range m.NUMAs() {
		numas = append(numas, n.ID)
		if !n.CPUs.Empty() {
			withCPUs = append(withCPUs, n.ID)
		}
		if n.Bytes > 0 {
			withMemory = append(withMemory, n.ID)
		}
		k.numa(n)
	}
	for name, list := range map[string][]idset.NUMA{"online": numas, "possible": numas, "has_cpu": withCPUs,
		"has_memory": withMemory, "has_normal_memory": withMemory} {
		k.put(nodeDir+"/"+name, "%s", idset.Of(list...))
	}
	groups, cores := map[idset.L3]idset.Set[idset.CPU]{}, map[idset.Socket]int{}
	for id := range m.CPUs().All() {
		c, _ := m.CPU(id)
		groups[c.L3] = groups[c.L3].With(id)
	}
	for _, core := range m.Cores() {
		threads := m.CoreCPUs(core)
		for id := range threads.All() {
			c, _ := m.CPU(id)
			k.cpu(c, threads, cores[c.Socket], groups[c.L3])
		}
		c, _ := m.CPU(threads.Min())
		cores[c.Socket]++
	}
	return k
}

func (k kernel) numa(n topo.NUMA) {
	dir := fmt.Sprintf("%s/node%d", nodeDir, n.ID)
	k.put(dir+"/cpulist", "%s", n.CPUs)
	for id := range n.CPUs.All() {
		k.link(fmt.Sprintf("%s/cpu%d", dir, id), fmt.Sprintf("../../cpu/cpu%d", id))
	}
	k.put(dir+"/distance", "%s", strings.Trim(fmt.Sprint(n.Distances), "[]"))
	k.put(dir+"/meminfo", "Node %d MemTotal:       %d kB\nNode %d MemFree:        1 kB", n.ID, n.Bytes>>10, n.ID)
	for _, h := range n.Hugepages {
		k.put(fmt.Sprintf("%s/hugepages/hugepages-%dkB/nr_hugepages", dir, h.PageSize>>10), "%d", h.Count)
	}
}

// cpu writes one CPU; core is its core's number within the socket, as most kernels count.
func (k kernel) cpu(c topo.CPU, threads idset.Set[idset.CPU], core int, l3 idset.Set[idset.CPU]) {
	dir := fmt.Sprintf("%s/cpu%d", cpuDir, c.ID)
	k.put(dir+"/topology/physical_package_id", "%d", c.Socket)
	k.put(dir+"/topology/core_id", "%d", core)
	k.put(dir+"/topology/core_cpus_list", "%s", threads)
	k.put(dir+"/cache/index0/level", "1")
	k.put(dir+"/cache/index0/type", "Data")
	k.put(dir+"/cache/index0/size", "32K")
	k.put(dir+"/cache/index0/id", "%d", c.ID)
	k.put(dir+"/cache/index0/shared_cpu_list", "%s", threads)
	k.put(dir+"/cache/index0/shared_cpu_map", "%s", mask(threads))
	k.put(dir+"/cache/index3/level", "3")
	k.put(dir+"/cache/index3/type", "Unified")
	k.put(dir+"/cache/index3/size", "32768K")
	k.put(dir+"/cache/index3/id", "%d", c.L3)
	k.put(dir+"/cache/index3/shared_cpu_list", "%s", l3)
	k.put(dir+"/cache/index3/shared_cpu_map", "%s", mask(l3))
}

// mask writes a set of CPUs as a kernel does: words of 32 bits, the last one for CPUs 0-31.
func mask(s idset.Set[idset.CPU]) string {
	words := make([]uint32, s.Max()/32+1)
	for id := range s.All() {
		words[len(words)-1-int(id)/32] |= 1 << (id % 32)
	}
	var out []string
	for _, w := range words {
		out = append(out, fmt.Sprintf("%08x", w))
	}
	return strings.Join(out, ",")
}

// pci writes a function behind bridges, whose addresses lead the path.
func (k kernel) pci(way string, class, vendor, device, numa int) string {
	dir := "sys/devices/pci" + way
	k.link("sys/bus/pci/devices/"+path.Base(way), "../../../devices/pci"+way)
	k.put(dir+"/class", "0x%06x", class)
	k.put(dir+"/vendor", "0x%04x", vendor)
	k.put(dir+"/device", "0x%04x", device)
	k.put(dir+"/numa_node", "%d", numa)
	return dir
}

func machine(t testing.TB, text string) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func cpuList(t testing.TB, text string) idset.Set[idset.CPU] {
	t.Helper()
	s, err := idset.Parse[idset.CPU](text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
