package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
)

// Cpuset has the CPUs and NUMA nodes to which the container runtime has pinned a container (cpuset.cpus and
// cpuset.mems). An empty set restricts nothing.
type Cpuset struct {
	CPUs  idset.Set[idset.CPU]
	NUMAs idset.Set[idset.NUMA]
}

// Cpuset reads what a container is pinned to. The error is fs.ErrNotExist if the container has no cgroup of its own,
// or if the kernel has no cpusets.
func (t *Tree) Cpuset(c Container) (out Cpuset, err error) {
	paths, err := t.paths(c)
	if err != nil {
		return out, fmt.Errorf("cgroup of %s: %w", c, err)
	}
	for _, dir := range paths {
		cpus, err := t.read(path.Join(dir, "cpuset.cpus"), maxCPUs)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("cpuset of %s: %w", c, err)
		}
		mems, err := t.read(path.Join(dir, "cpuset.mems"), maxCPUs)
		if err != nil {
			return out, fmt.Errorf("cpuset of %s: %w", c, err)
		}
		if out.CPUs, err = idset.Parse[idset.CPU](strings.TrimSpace(cpus)); err != nil {
			return out, fmt.Errorf("cpuset.cpus of %s: %w", c, err)
		}
		if out.NUMAs, err = idset.Parse[idset.NUMA](strings.TrimSpace(mems)); err != nil {
			return out, fmt.Errorf("cpuset.mems of %s: %w", c, err)
		}
		return out, nil
	}
	return out, fmt.Errorf("cgroup of %s: %w", c, fs.ErrNotExist)
}
