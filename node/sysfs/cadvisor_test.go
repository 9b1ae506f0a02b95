package sysfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/bits"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	info "github.com/google/cadvisor/lib/model"
	cadvisor "github.com/google/cadvisor/lib/utils/sysfs"
	"github.com/google/cadvisor/lib/utils/sysinfo"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// shown gives cadvisor, the kubelet's source, the files of a tree. It has only what GetNodesInfo calls.
type shown struct {
	cadvisor.SysFs
	tree fs.FS
}

// text returns a file. The NUL bytes that some archives of /sys have at the ends of files are not the kernel's.
func (s shown) text(name string) (string, error) {
	data, err := fs.ReadFile(s.tree, strings.TrimPrefix(path.Clean(name), "/"))
	return strings.Trim(string(data), " \t\r\n\x00"), err
}

// glob returns absolute paths, as cadvisor takes ids only out of "/cpu12".
func (s shown) glob(pattern string) ([]string, error) {
	out, err := fs.Glob(s.tree, strings.TrimPrefix(path.Clean(pattern), "/"))
	for i := range out {
		out[i] = "/" + out[i]
	}
	return out, err
}

func (s shown) cpus(file string) (idset.Set[idset.CPU], error) {
	text, err := s.text(file)
	if err != nil {
		return idset.Set[idset.CPU]{}, err
	}
	return idset.Parse[idset.CPU](text)
}

// ofCPU returns the directory of a CPU, whichever path leads to it.
func ofCPU(dir string) string { return path.Join(cpuDir, path.Base(dir)) }

func (s shown) GetNodesPaths() ([]string, error) { return s.glob(nodeDir + "/node*[0-9]") }

// GetCPUsPaths finds the CPUs of a NUMA node by its links, which may differ from its cpulist.
func (s shown) GetCPUsPaths(dir string) ([]string, error) { return s.glob(dir + "/cpu*[0-9]") }

func (s shown) GetCoreID(dir string) (string, error) { return s.text(ofCPU(dir) + "/topology/core_id") }
func (s shown) GetCPUPhysicalPackageID(dir string) (string, error) {
	return s.text(ofCPU(dir) + "/topology/physical_package_id")
}
func (s shown) GetMemInfo(dir string) (string, error)   { return s.text(dir + "/meminfo") }
func (s shown) GetDistances(dir string) (string, error) { return s.text(dir + "/distance") }
func (s shown) GetHugePagesNr(dir, name string) (string, error) {
	return s.text(path.Join(dir, name, "nr_hugepages"))
}
func (s shown) GetHugePagesInfo(dir string) ([]os.FileInfo, error) {
	return s.infos(strings.TrimPrefix(path.Clean(dir), "/"))
}
func (s shown) GetCaches(id int) ([]os.FileInfo, error) {
	return s.infos(fmt.Sprintf("%s/cpu%d/cache", cpuDir, id))
}

func (s shown) infos(dir string) (out []os.FileInfo, err error) {
	entries, err := fs.ReadDir(s.tree, dir)
	for _, e := range entries {
		i, err := e.Info()
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, err
}

// GetCacheInfo fails if an id or a size is missing, as cadvisor's own does.
func (s shown) GetCacheInfo(id int, name string) (c cadvisor.CacheInfo, err error) {
	dir := fmt.Sprintf("%s/cpu%d/cache/%s/", cpuDir, id, name)
	for file, to := range map[string]*int{"id": &c.Id, "level": &c.Level} {
		text, err := s.text(dir + file)
		if err != nil {
			return c, err
		}
		if _, err := fmt.Sscanf(text, "%d", to); err != nil {
			return c, err
		}
	}
	for _, name := range []string{"size", "type"} {
		if _, err := s.text(dir + name); err != nil {
			return c, err
		}
	}
	text, err := s.text(dir + "shared_cpu_map")
	if err != nil {
		return c, err
	}
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 16, 64)
		if err != nil {
			return c, err
		}
		c.Cpus += bits.OnesCount64(n)
	}
	return c, nil
}

func (s shown) IsCPUOnline(dir string) bool {
	set, err := s.cpus(cpuDir + "/online")
	var id idset.CPU
	_, scan := fmt.Sscanf(path.Base(dir), "cpu%d", &id)
	return errors.Is(err, fs.ErrNotExist) || err == nil && scan == nil && set.Has(id)
}

// view is a machine as text: its NUMA nodes, its cores, and its L3 groups in the order of the kubelet's ids.
type view struct{ numas, distances, memory, cores, groups string }

// kubeletView is the topology that the kubelet's CPU manager makes of cadvisor's report (cpumanager/topology,
// Discover): if two NUMA nodes have a CPU the later one keeps it, and a core without an uncore cache is in the group of
// its socket.
func kubeletView(nodes []info.Node) view {
	var v view
	type place struct{ numa, core, socket, group int }
	cpus := map[idset.CPU]place{}
	at := map[int]info.Node{}
	for _, n := range nodes {
		at[n.Id] = n
		for _, c := range n.Cores {
			p := place{n.Id, slices.Min(c.Threads), c.SocketID, c.SocketID}
			if len(c.UncoreCaches) > 0 {
				p.group = c.UncoreCaches[0].Id
			}
			for _, id := range c.Threads {
				cpus[idset.CPU(id)] = p
			}
		}
	}
	numas, cores, sockets, groups := parts{}, parts{}, parts{}, parts{}
	for id, p := range cpus {
		numas.add(p.numa, id)
		cores.add(p.core, id)
		sockets.add(p.socket, id)
		groups.add(p.group, id)
	}
	for _, id := range slices.Sorted(maps.Keys(at)) {
		n := at[id]
		slices.SortFunc(n.HugePages, func(a, b info.HugePagesInfo) int { return int(a.PageSize) - int(b.PageSize) })
		v.numas += fmt.Sprintf("%d: %s\n", id, numas[id])
		v.distances += fmt.Sprintf("%d: %v\n", id, n.Distances)
		v.memory += fmt.Sprintf("%d: %d", id, n.Memory)
		for _, h := range n.HugePages {
			v.memory += fmt.Sprintf(" %dx%d", h.NumPages, h.PageSize<<10)
		}
		v.memory += "\n"
	}
	v.cores, v.groups = cores.String(), sockets.String()+" | "+groups.String()
	return v
}

// parts are sets of CPUs by id, written in the order of ids.
type parts map[int]idset.Set[idset.CPU]

func (p parts) add(id int, cpu idset.CPU) { p[id] = p[id].With(cpu) }

func (p parts) String() string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(p)) {
		out = append(out, p[id].String())
	}
	return strings.Join(out, " ")
}

func machineView(m *topo.Machine) view {
	var v view
	cores, sockets, groups := parts{}, parts{}, parts{}
	for id := range m.CPUs().All() {
		c, _ := m.CPU(id)
		cores.add(int(c.Core), id)
		sockets.add(int(c.Socket), id)
		groups.add(int(c.L3), id)
	}
	for _, n := range m.NUMAs() {
		v.numas += fmt.Sprintf("%d: %s\n", n.ID, n.CPUs)
		v.distances += fmt.Sprintf("%d: %v\n", n.ID, n.Distances)
		v.memory += fmt.Sprintf("%d: %d", n.ID, n.Bytes)
		for _, h := range n.Hugepages {
			v.memory += fmt.Sprintf(" %dx%d", h.Count, h.PageSize)
		}
		v.memory += "\n"
	}
	v.cores, v.groups = cores.String(), sockets.String()+" | "+groups.String()
	return v
}

// judge compares what is discovered in a tree with the kubelet's view, and returns the differences. Only distances may
// differ, with a warning: the machine has none if they form no table.
func judge(tree fs.FS) error {
	found, err := sysfs.Discover(tree)
	has := func(name sysfs.Anomaly) bool {
		return slices.ContainsFunc(found.Warnings, func(w sysfs.Warning) bool { return w.Name == name })
	}
	nodes, _, failure := sysinfo.GetNodesInfo(shown{tree: tree})
	cores := 0
	for _, n := range nodes {
		cores += len(n.Cores)
	}
	if failure != nil || cores == 0 {
		if err == nil && !has(sysfs.KubeletBlind) {
			return fmt.Errorf("the kubelet has no machine (%w), and nothing says so: %v", failure, found.Warnings)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("the kubelet has a machine, but: %w", err)
	}
	rename(nodes)
	ours, theirs := machineView(found.Machine), kubeletView(nodes)
	switch {
	case has(sysfs.KubeletBlind):
		return fmt.Errorf("the kubelet has a machine, but the warnings are %v", found.Warnings)
	case ours.numas != theirs.numas:
		return fmt.Errorf("NUMA nodes are\n%sand for the kubelet\n%s", ours.numas, theirs.numas)
	case ours.distances != theirs.distances && !has(sysfs.Distances) && !has(sysfs.OddDistances):
		return fmt.Errorf("distances are\n%sand for the kubelet\n%s", ours.distances, theirs.distances)
	case ours.memory != theirs.memory:
		return fmt.Errorf("memory is\n%sand for the kubelet\n%s", ours.memory, theirs.memory)
	case ours.cores != theirs.cores:
		return fmt.Errorf("cores are %s and for the kubelet %s", ours.cores, theirs.cores)
	case ours.groups != theirs.groups:
		return fmt.Errorf("sockets and L3 groups are %s and for the kubelet %s", ours.groups, theirs.groups)
	}
	return judgeHardware(found, has)
}

// rename gives a NUMA node that the kubelet numbers -1 the first free number above 63: topo holds no negative id, and
// the kubelet's managers fail with either.
func rename(nodes []info.Node) {
	next := 64
	for slices.ContainsFunc(nodes, func(n info.Node) bool { return n.Id == next }) {
		next++
	}
	for i := range nodes {
		if nodes[i].Id == -1 {
			nodes[i].Id = next
		}
	}
}

// judgeHardware checks that warnings name exactly the differences between the two views.
func judgeHardware(found *sysfs.Found, has func(sysfs.Anomaly) bool) error {
	if found.Hardware == nil {
		if has(sysfs.KubeletCores) || has(sysfs.KubeletL3) {
			return fmt.Errorf("the views are equal, but the warnings are %v", found.Warnings)
		}
		return nil
	}
	ours, theirs := machineView(found.Hardware), machineView(found.Machine)
	sorted := func(s string) []string {
		return slices.Sorted(strings.FieldsFuncSeq(s, func(r rune) bool { return r == ' ' }))
	}
	if ours.cores != theirs.cores && !has(sysfs.KubeletCores) {
		return fmt.Errorf("cores are %s and for the kubelet %s, but the warnings are %v",
			ours.cores, theirs.cores, found.Warnings)
	}
	if ours.cores == theirs.cores && ours.memory == theirs.memory &&
		slices.Equal(sorted(ours.groups), sorted(theirs.groups)) == has(sysfs.KubeletL3) {
		return fmt.Errorf("L3 groups are %s and for the kubelet %s, but the warnings are %v",
			ours.groups, theirs.groups, found.Warnings)
	}
	return nil
}

// quiet drops the log of cadvisor.
func quiet() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// The machine is the one that the kubelet has.
func TestTheKubeletSeesTheSame(t *testing.T) {
	quiet()
	for name, make := range made {
		if name == "too-many-pages" {
			continue // hugepages that take more than all memory are refused
		}
		if err := judge(make(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// harms remove files that real machines lack, or change numbers as on real machines.
var harms = map[string]func(*rapid.T, kernel){
	"few core ids": func(t *rapid.T, k kernel) { // two dies of a socket may use the same ids
		k.each("core_id", func(name string) { k.put(name, "%d", rapid.IntRange(-1, 3).Draw(t, "core_id")) })
	},
	"few package ids": func(t *rapid.T, k kernel) {
		k.each("physical_package_id", func(name string) { k.put(name, "%d", rapid.IntRange(-1, 90).Draw(t, "package")) })
	},
	"other cache ids": func(t *rapid.T, k kernel) {
		k.each("id", func(name string) { k.put(name, "%d", rapid.IntRange(0, 3).Draw(t, "id")) })
	},
	"no cache ids": func(t *rapid.T, k kernel) { k.remove(cpuDir + "/cpu*/cache/index*/id") },
	"files missing": func(t *rapid.T, k kernel) {
		for _, base := range []string{"id", "size", "type", "core_id", "physical_package_id", "meminfo"} {
			k.each(base, func(name string) {
				if rapid.IntRange(0, 20).Draw(t, "missing") == 0 {
					delete(k, name)
				}
			})
		}
	},
	"other links": func(t *rapid.T, k kernel) { // one stays, as snapshots of older releases have none
		links, _ := fs.Glob(fs.FS(k), nodeDir+"/node*/cpu*[0-9]")
		for _, name := range links[min(1, len(links)):] {
			if rapid.IntRange(0, 3).Draw(t, "link") == 0 {
				delete(k, name)
			}
		}
	},
	"no NUMA nodes": func(t *rapid.T, k kernel) {
		k.remove(nodeDir)
		k.put("proc/meminfo", "MemTotal: 1024 kB")
	},
	"offline": func(t *rapid.T, k kernel) { k.put(cpuDir+"/online", "0-60") },
}

// each calls f with the names of all files with a base name, in ascending order.
func (k kernel) each(base string, f func(name string)) {
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if path.Base(name) == base {
			f(name)
		}
	}
}

func TestTheKubeletSeesTheSameOfDrawnMachines(t *testing.T) {
	quiet()
	names := slices.Sorted(maps.Keys(harms))
	rapid.Check(t, func(t *rapid.T) {
		k := show(drawMachine(t))
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "harms") {
			harms[name](t, k)
		}
		if err := judge(k); err != nil {
			t.Fatal(err)
		}
	})
}
