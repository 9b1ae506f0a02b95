package kubelet_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	cadvisorfs "github.com/google/cadvisor/lib/utils/sysfs"
	"github.com/google/cadvisor/lib/utils/sysinfo"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// snapshotFiles gives cadvisor the files of a machine's snapshot instead of /sys. It has only what GetNodesInfo calls.
type snapshotFiles struct {
	cadvisorfs.SysFs
	tree fs.FS
}

func (s snapshotFiles) text(name string) (string, error) {
	data, err := fs.ReadFile(s.tree, strings.TrimPrefix(path.Clean(name), "/"))
	return strings.TrimSpace(string(data)), err
}

// glob returns absolute paths, as cadvisor takes ids only out of "/cpu12".
func (s snapshotFiles) glob(pattern string) ([]string, error) {
	out, err := fs.Glob(s.tree, strings.TrimPrefix(path.Clean(pattern), "/"))
	for i := range out {
		out[i] = "/" + out[i]
	}
	return out, err
}

func (s snapshotFiles) infos(dir string) (out []os.FileInfo, err error) {
	entries, err := fs.ReadDir(s.tree, strings.TrimPrefix(path.Clean(dir), "/"))
	for _, e := range entries {
		i, err := e.Info()
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, err
}

const sysCPU = "sys/devices/system/cpu"

// topologyOf reads a file of a CPU, whichever path leads to the CPU.
func (s snapshotFiles) topologyOf(dir, name string) (string, error) {
	return s.text(path.Join(sysCPU, path.Base(dir), "topology", name))
}

func (s snapshotFiles) GetNodesPaths() ([]string, error) {
	return s.glob("sys/devices/system/node/node*[0-9]")
}
func (s snapshotFiles) GetCPUsPaths(dir string) ([]string, error) { return s.glob(dir + "/cpu*[0-9]") }
func (s snapshotFiles) GetCoreID(dir string) (string, error)      { return s.topologyOf(dir, "core_id") }
func (s snapshotFiles) GetCPUPhysicalPackageID(dir string) (string, error) {
	return s.topologyOf(dir, "physical_package_id")
}
func (s snapshotFiles) GetMemInfo(dir string) (string, error)   { return s.text(dir + "/meminfo") }
func (s snapshotFiles) GetDistances(dir string) (string, error) { return s.text(dir + "/distance") }
func (s snapshotFiles) GetHugePagesNr(dir, name string) (string, error) {
	return s.text(path.Join(dir, name, "nr_hugepages"))
}
func (s snapshotFiles) GetHugePagesInfo(dir string) ([]os.FileInfo, error) { return s.infos(dir) }
func (s snapshotFiles) GetCaches(id int) ([]os.FileInfo, error) {
	return s.infos(fmt.Sprintf("%s/cpu%d/cache", sysCPU, id))
}

// GetCacheInfo fails if a file is missing, as cadvisor's own does. Older snapshots have no shared_cpu_map, and only the
// level of small caches.
func (s snapshotFiles) GetCacheInfo(id int, name string) (c cadvisorfs.CacheInfo, err error) {
	dir := fmt.Sprintf("%s/cpu%d/cache/%s/", sysCPU, id, name)
	mask, missing := s.text(dir + "shared_cpu_map")
	for _, f := range []struct {
		file string
		to   *int
	}{{"level", &c.Level}, {"id", &c.Id}} {
		text, err := s.text(dir + f.file)
		if err == nil {
			_, err = fmt.Sscanf(text, "%d", f.to)
		}
		if err != nil {
			return c, err
		}
		if missing != nil && c.Level <= 2 {
			return c, nil
		}
	}
	for _, file := range []string{"size", "type"} {
		if _, err := s.text(dir + file); err != nil {
			return c, err
		}
	}
	if missing != nil {
		text, err := s.text(dir + "shared_cpu_list")
		if err != nil {
			return c, err
		}
		set, err := idset.Parse[idset.CPU](text)
		c.Cpus = set.Len()
		return c, err
	}
	for word := range strings.SplitSeq(mask, ",") {
		n, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			return c, err
		}
		c.Cpus += bits.OnesCount64(n)
	}
	return c, nil
}

func (s snapshotFiles) IsCPUOnline(dir string) bool {
	text, err := s.text(sysCPU + "/online")
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	set, bad := idset.Parse[idset.CPU](text)
	id, no := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "cpu"))
	return err == nil && bad == nil && no == nil && set.Has(idset.CPU(id))
}

// reported returns cadvisor's report of a snapshot's machine; ok is false if it reports no CPU.
func reported(t *testing.T, tree fs.FS, found *sysfs.Found) (out *cadvisorapi.MachineInfo, ok bool) {
	t.Helper()
	nodes, cpus, err := sysinfo.GetNodesInfo(snapshotFiles{tree: tree})
	if err != nil {
		return nil, false
	}
	out = &cadvisorapi.MachineInfo{MachineID: "m", SystemUUID: "m", BootID: "b", NumCores: cpus, Topology: nodes}
	sockets := map[int]bool{}
	for _, n := range nodes {
		out.NumPhysicalCores += len(n.Cores)
		for _, c := range n.Cores {
			sockets[c.SocketID] = true
		}
	}
	out.NumSockets = len(sockets)
	// All memory of the machine is in /proc/meminfo, which does not divide it among NUMA nodes.
	whole := found.Machine
	if found.Hardware != nil {
		whole = found.Hardware
	}
	for _, n := range whole.NUMAs() {
		out.MemoryCapacity += uint64(n.Bytes)
	}
	out.MemoryCapacity = max(out.MemoryCapacity, 1<<32) // two sockets without NUMA nodes
	return out, out.NumPhysicalCores > 0
}
