package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// ID returns the number by which the kernel names the cgroup of a container: the inode of its directory. The error is
// fs.ErrNotExist if the container has no cgroup of its own.
func (t *Tree) ID(c Container) (uint64, error) {
	paths, err := t.paths(c)
	if err != nil {
		return 0, fmt.Errorf("cgroup of %s: %w", c, err)
	}
	for _, dir := range paths {
		info, err := fs.Stat(t.root, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("cgroup of %s: %w", c, err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			return st.Ino, nil
		}
		return 0, fmt.Errorf("cgroup of %s: its file system has no inodes", c)
	}
	return 0, fmt.Errorf("cgroup of %s: %w", c, fs.ErrNotExist)
}
