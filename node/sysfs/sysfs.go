// Package sysfs discovers the real machine: it reads a Linux /sys and /proc, given as an [fs.FS] rooted
// at "/", and makes a [topo.Machine] of it.
//
// The machine is the one that the kubelet sees through cadvisor: every numa that the kernel lists, those
// without CPUs and those whose memory is not for ordinary pods included. Cores and L3 groups are those of
// the hardware; a [Warning] says where the kubelet cuts them otherwise. Where a kernel or its firmware
// contradicts itself the machine is still usable, and a named warning says what was believed instead.
//
// Invariant: nothing is doubted in silence. What is not a description of a machine at all (no CPU, more
// numas or CPUs than [topo] holds) is refused with one error, and so are files, directories, ids and
// counts beyond fixed bounds, each by name. The package only reads; nothing in it but [Host] knows of
// the operating system.
//
// Every function that reads is named after the kernel's file and is apart from the function that parses.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

type cpuSet = idset.Set[idset.CPU]

// Found is what discovery says of a machine.
type Found struct {
	Machine *topo.Machine // without devices: the kubelet knows them
	// Kinds says for every numa of the machine what its memory is.
	Kinds    map[idset.NUMA]MemoryKind
	Warnings []Warning // in the order in which they were met, each once
}

// Discover reads the machine that a tree with the paths "sys/..." and "proc/..." describes.
func Discover(fsys fs.FS) (*Found, error) { return discover(&tree{fsys: fsys}) }

func discover(t *tree) (*Found, error) {
	online, err := t.online()
	if err != nil {
		return nil, err
	}
	nodes, err := t.nodes(online)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		nodes = t.packages(online)
	} else if err := t.share(nodes, online); err != nil {
		return nil, err
	}
	kinds := t.kinds(nodes)
	spec := topo.Spec{Cores: t.cores(nodes)}
	for _, n := range nodes {
		spec.NUMAs = append(spec.NUMAs, topo.NUMA{ID: n.id, Bytes: n.bytes, Hugepages: n.hugepages, Distances: n.distances})
	}
	m, err := topo.New(spec)
	if err != nil {
		return nil, fmt.Errorf("machine in /sys: %w", err)
	}
	return &Found{Machine: m, Kinds: kinds, Warnings: t.warnings}, nil
}

// online reads which CPUs run, from /sys/devices/system/cpu/online. A kernel without CPU hotplug has no
// such file, and then all CPUs run (Documentation/core-api/cpu_hotplug.rst).
func (t *tree) online() (cpuSet, error) {
	const file = cpuDir + "/online"
	set, ok := ids[idset.CPU](t, file)
	if !ok || set.Empty() {
		var all []idset.CPU
		for _, id := range t.numbered(cpuDir, "cpu") {
			if t.number(fmt.Sprintf("%s/cpu%d/online", cpuDir, id), 1, 0, 1) == 1 {
				all = append(all, idset.CPU(id))
			}
		}
		if set = idset.Of(all...); ok && !set.Empty() {
			t.warn(Malformed, file, "no CPU is online: believed the directories of CPUs instead")
		}
	}
	if set.Empty() {
		return set, errors.New("machine in /sys: no CPU is online in /" + file)
	}
	if n := set.Len(); n > topo.MaxCPUs {
		return set, fmt.Errorf("machine in /sys: %d CPUs are online, the most is %d", n, topo.MaxCPUs)
	}
	return set, nil
}
