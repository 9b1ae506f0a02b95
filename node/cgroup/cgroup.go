// Package cgroup reads from cgroup v2 how much memory each container of a node has on each NUMA node, and its CPU
// time.
//
// Invariant: a container is found by its identity at the API server: the UID and the QoS class of its pod, and the
// runtime's ID of the container. The kubelet's cgroup driver may be systemd or cgroupfs. The package reads nothing
// outside the given tree, and of every file no more than a bound. It refuses cgroup v1, whose files have other
// contents under similar names, and names that cannot be names of cgroups.
package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/core/idset"
)

// ErrVersion is the error of a tree that is not purely cgroup v2.
var ErrVersion = errors.New("not a tree of cgroup v2")

// Bounds on files and values.
const (
	maxName    = 253      // of one cgroup, in bytes; a file's name has at most 255
	maxParents = 16       // cgroups above "kubepods"
	maxStat    = 1 << 20  // memory.numa_stat, in bytes; kernels write some 1 KiB per NUMA node
	maxCPUs    = 64 << 10 // cpuset.cpus.effective, in bytes
	maxTimes   = 16 << 10 // cpu.stat, in bytes; kernels write some 500 bytes
)

// Tree is a mounted cgroup hierarchy.
type Tree struct {
	root    fs.FS
	parents []string // cgroups above the kubelet's "kubepods"
}

// Open returns the tree that is mounted at root, commonly /sys/fs/cgroup. The kubelet's root, cgroupRoot in its
// configuration, is commonly "/"; "" means the same. The error is ErrVersion if root has cgroup v1, or both versions
// side by side.
func Open(root fs.FS, kubeletRoot string) (*Tree, error) {
	t := &Tree{root: root}
	for p := range strings.SplitSeq(kubeletRoot, "/") {
		if p == "" {
			continue
		}
		if err := checkName(p); err != nil {
			return nil, fmt.Errorf("kubelet's root %q: %w", clip(kubeletRoot), err)
		}
		t.parents = append(t.parents, p)
	}
	if len(t.parents) > maxParents {
		return nil, fmt.Errorf("kubelet's root %q is more than %d cgroups deep", clip(kubeletRoot), maxParents)
	}
	if _, err := fs.Stat(root, "cgroup.controllers"); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, ErrVersion
		}
		return nil, fmt.Errorf("open cgroup tree: %w", err)
	}
	return t, nil
}

// Memory is the memory that a container is charged with, and the CPU time that its processes used.
type Memory struct {
	// CPUTime is negative if the kernel does not report it.
	CPUTime time.Duration
	// CPUs are the CPUs that the container may use; empty if the kernel does not report them.
	CPUs idset.Set[idset.CPU]
	// NUMAs has an Amount for every NUMA node of the kernel.
	NUMAs map[idset.NUMA]Amount
}

// Amount is memory on one NUMA node, in bytes. It does not include hugepages, which are charged separately.
type Amount struct {
	Anon   int64 // of processes, without files
	File   int64 // page cache, shared memory and tmpfs
	Kernel int64 // page tables, stacks and slabs that the kernel keeps for the container
}

// Memory reads where the memory of a container is. The error is fs.ErrNotExist if the container has no cgroup of its
// own, for example after it ended or inside a virtual machine.
func (t *Tree) Memory(c Container) (Memory, error) {
	paths, err := t.paths(c)
	if err != nil {
		return Memory{}, fmt.Errorf("cgroup of %s: %w", c, err)
	}
	for _, dir := range paths {
		text, err := t.read(path.Join(dir, "memory.numa_stat"), maxStat)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Memory{}, fmt.Errorf("memory of %s: %w", c, err)
		}
		out, err := t.memory(dir, text)
		if err != nil {
			return Memory{}, fmt.Errorf("memory of %s: %w", c, err)
		}
		return out, nil
	}
	return Memory{}, fmt.Errorf("cgroup of %s: %w", c, fs.ErrNotExist)
}

// memory returns the Memory of the cgroup at dir. stat is the text of its memory.numa_stat.
func (t *Tree) memory(dir, stat string) (Memory, error) {
	numas, err := parseStat(stat)
	if err != nil {
		return Memory{}, fmt.Errorf("memory.numa_stat: %w", err)
	}
	used, err := t.cpuTime(dir)
	if err != nil {
		return Memory{}, err
	}
	text, err := t.read(path.Join(dir, "cpuset.cpus.effective"), maxCPUs)
	if errors.Is(err, fs.ErrNotExist) {
		return Memory{CPUTime: used, NUMAs: numas}, nil // the cpuset controller is off
	}
	if err != nil {
		return Memory{}, err
	}
	cpus, err := idset.Parse[idset.CPU](strings.TrimSpace(text))
	if err != nil {
		return Memory{}, fmt.Errorf("cpuset.cpus.effective: %w", err)
	}
	return Memory{CPUTime: used, CPUs: cpus, NUMAs: numas}, nil
}

// cpuTime returns how much CPU time the processes of a cgroup have used since it was made, or -1 if the kernel does not
// report it.
func (t *Tree) cpuTime(dir string) (time.Duration, error) {
	text, err := t.read(path.Join(dir, "cpu.stat"), maxTimes)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return parseTimes(text)
}

// Remote returns which share, 0 to 1, of the container's own memory (Anon and File) is on other NUMA nodes than the
// given ones. It returns false if the container has no such memory.
func (m Memory) Remote(home idset.Set[idset.NUMA]) (share float64, ok bool) {
	var all, away float64
	for numa, a := range m.NUMAs {
		n := float64(a.Anon) + float64(a.File)
		all += n
		if !home.Has(numa) {
			away += n
		}
	}
	if all == 0 {
		return 0, false
	}
	return away / all, true
}

// read returns the text of a file. A file of more than the given number of bytes is an error.
func (t *Tree) read(name string, limit int64) (string, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return "", fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return string(data), nil
}
