package sysfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	info "github.com/google/cadvisor/info/v1"
	cadvisor "github.com/google/cadvisor/utils/sysfs"
	"github.com/google/cadvisor/utils/sysinfo"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// shown gives cadvisor, which the kubelet believes, the files of a tree. Only what GetNodesInfo asks
// for is there.
type shown struct {
	cadvisor.SysFs
	tree fs.FS
}

func (s shown) text(name string) (string, error) {
	data, err := fs.ReadFile(s.tree, strings.TrimPrefix(path.Clean(name), "/"))
	return strings.TrimSpace(string(data)), err
}

func (s shown) glob(pattern string) ([]string, error) {
	return fs.Glob(s.tree, strings.TrimPrefix(pattern, "/"))
}

func (s shown) cpus(file string) (idset.Set[idset.CPU], error) {
	text, err := s.text(file)
	if err != nil {
		return idset.Set[idset.CPU]{}, err
	}
	return idset.Parse[idset.CPU](text)
}

// ofCPU is the directory of a CPU, whichever way a path leads to it.
func ofCPU(dir string) string { return path.Join(cpuDir, path.Base(dir)) }

func (s shown) GetNodesPaths() ([]string, error) { return s.glob(nodeDir + "/node*[0-9]") }

// GetCPUsPaths has the links of a numa, which the kernel keeps for the CPUs of its cpulist.
func (s shown) GetCPUsPaths(dir string) ([]string, error) {
	if strings.TrimPrefix(dir, "/") == cpuDir {
		return s.glob(cpuDir + "/cpu*[0-9]")
	}
	set, err := s.cpus(dir + "/cpulist")
	var out []string
	for id := range set.All() {
		out = append(out, fmt.Sprintf("%s/cpu%d", dir, id))
	}
	slices.Sort(out)
	return out, err
}

func (s shown) GetCoreID(dir string) (string, error) { return s.text(ofCPU(dir) + "/topology/core_id") }
func (s shown) GetCPUPhysicalPackageID(dir string) (string, error) {
	return s.text(ofCPU(dir) + "/topology/physical_package_id")
}
func (s shown) GetMemInfo(dir string) (string, error)   { return s.text(dir + "/meminfo") }
func (s shown) GetDistances(dir string) (string, error) { return s.text(dir + "/distance") }
func (s shown) GetHugePagesNr(dir, name string) (string, error) {
	return s.text(path.Join(dir, name, "nr_hugepages"))
}
func (s shown) GetHugePagesInfo(dir string) ([]os.FileInfo, error) { return s.infos(path.Clean(dir)) }
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

// GetCacheInfo fails where an id or a size is missing, as cadvisor's own does.
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
	if _, err := s.text(dir + "size"); err != nil {
		return c, err
	}
	set, err := s.cpus(dir + "shared_cpu_list")
	c.Cpus = set.Len()
	return c, err
}

func (s shown) IsCPUOnline(dir string) bool {
	set, err := s.cpus(cpuDir + "/online")
	var id idset.CPU
	_, scan := fmt.Sscanf(path.Base(dir), "cpu%d", &id)
	return errors.Is(err, fs.ErrNotExist) || err == nil && scan == nil && set.Has(id)
}

// view is a machine as text: its numas, its cores, and which CPUs share an L3 cache.
type view struct{ numas, distances, memory, cores, groups string }

// kubeletView makes of cadvisor's answer what the kubelet makes of it: where two numas claim a CPU, the
// later one keeps it, and a core without an uncore cache is in the group of its socket.
func kubeletView(nodes []info.Node) view {
	var v view
	type place struct{ numa, core, group int }
	cpus := map[idset.CPU]place{}
	at := map[int]info.Node{}
	for _, n := range nodes {
		at[n.Id] = n
		for _, c := range n.Cores {
			p := place{n.Id, slices.Min(c.Threads), c.SocketID}
			if len(c.UncoreCaches) > 0 {
				p.group = c.UncoreCaches[0].Id
			}
			for _, id := range c.Threads {
				cpus[idset.CPU(id)] = p
			}
		}
	}
	numas, cores, groups := map[int]idset.Set[idset.CPU]{}, map[int]idset.Set[idset.CPU]{}, map[int]idset.Set[idset.CPU]{}
	for id, p := range cpus {
		numas[p.numa], cores[p.core], groups[p.group] = numas[p.numa].With(id), cores[p.core].With(id), groups[p.group].With(id)
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
	v.cores, v.groups = sets(cores), sets(groups)
	return v
}

func machineView(m *topo.Machine) view {
	var v view
	cores, groups := map[idset.Core]idset.Set[idset.CPU]{}, map[idset.L3]idset.Set[idset.CPU]{}
	for id := range m.CPUs().All() {
		c, _ := m.CPU(id)
		cores[c.Core], groups[c.L3] = cores[c.Core].With(id), groups[c.L3].With(id)
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
	v.cores, v.groups = sets(cores), sets(groups)
	return v
}

func sets[K comparable](in map[K]idset.Set[idset.CPU]) string {
	var out []string
	for _, s := range in {
		out = append(out, s.String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// judge compares what is discovered in a tree with what the kubelet sees there, and says what differs
// without a warning, or warns of a difference that is none.
func judge(tree fs.FS) error {
	nodes, cpus, err := sysinfo.GetNodesInfo(shown{tree: tree})
	if err != nil || cpus == 0 {
		return nil // the kubelet does not start here
	}
	found, err := sysfs.Discover(tree)
	if err != nil {
		return fmt.Errorf("the kubelet sees a machine, but: %w", err)
	}
	has := func(name sysfs.Oddity) bool {
		return slices.ContainsFunc(found.Warnings, func(w sysfs.Warning) bool { return w.Name == name })
	}
	ours, theirs := machineView(found.Machine), kubeletView(nodes)
	switch {
	case ours.numas != theirs.numas:
		return fmt.Errorf("numas are\n%sand for the kubelet\n%s", ours.numas, theirs.numas)
	case ours.distances != theirs.distances && !has(sysfs.Distances) && !has(sysfs.OddDistances):
		return fmt.Errorf("distances are\n%sand for the kubelet\n%s", ours.distances, theirs.distances)
	case ours.memory != theirs.memory && !has(sysfs.NoNUMA):
		return fmt.Errorf("memory is\n%sand for the kubelet\n%s", ours.memory, theirs.memory)
	case (ours.cores != theirs.cores) != has(sysfs.KubeletCores):
		return fmt.Errorf("cores are %s and for the kubelet %s, but the warnings are %v", ours.cores, theirs.cores, found.Warnings)
	case has(sysfs.KubeletCores): // groups are made of cores
	case (ours.groups != theirs.groups) != has(sysfs.KubeletL3):
		return fmt.Errorf("L3 groups are %s and for the kubelet %s, but the warnings are %v", ours.groups, theirs.groups, found.Warnings)
	}
	return nil
}

// The machine is the one that the kubelet sees, or there is a warning that it is not.
func TestTheKubeletSeesTheSame(t *testing.T) {
	for name, make := range made {
		if name == "too-many-pages" {
			continue // the kubelet would count negative memory
		}
		if err := judge(make(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheKubeletSeesTheSameOfDrawnMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := show(drawMachine(t))
		// Two dies of a socket may use the same core ids.
		if rapid.Bool().Draw(t, "few core ids") {
			for name := range k {
				if path.Base(name) == "core_id" {
					k.put(name, "%d", rapid.IntRange(0, 3).Draw(t, "core_id"))
				}
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "no ids") == 0 {
			k.remove(cpuDir + "/cpu*/cache/index*/id")
		}
		if err := judge(k); err != nil {
			t.Fatal(err)
		}
	})
}
