package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
)

// Directories of the kernel's trees.
const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
	pciDir  = "sys/bus/pci/devices"
	daxDir  = "sys/bus/dax/devices"
	gpuDir  = "proc/driver/nvidia/gpus"
)

// Bounds on files. The kernel writes most files of sysfs into one page, and longer lists only for machines that topo
// does not hold.
const (
	maxFile    = 64 << 10
	maxEntries = 1 << 16
)

// tree reads files of /sys and /proc within bounds, and collects the warnings about them. A file that does not exist is
// simply absent. A file that cannot be read or parsed counts as absent, too, and leaves a warning. tree opens each file
// and lists each directory once, and answers from memory afterwards.
type tree struct {
	fsys     fs.FS
	files    map[string]fileText
	dirs     map[string]dirNames
	warnings warnings
	seen     *record // nil: files are not recorded
	blind    bool    // cadvisor reports no topology, see fails
	counted  int     // CPUs that cadvisor counts if there are no NUMA nodes, including offline ones
}

// fileText is the result of reading a file.
type fileText struct {
	text string
	err  error
}

// dirNames is the result of listing a directory.
type dirNames struct {
	names []string
	err   error
}

func newTree(fsys fs.FS) *tree {
	return &tree{fsys: fsys, files: map[string]fileText{}, dirs: map[string]dirNames{}}
}

// text returns the text of a file without the blanks and NUL bytes around it. ok is false if the file does not exist
// or cannot be read.
func (t *tree) text(name string) (s string, ok bool) {
	f, known := t.files[name]
	if !known {
		data, err := t.read(name)
		f = fileText{strings.Trim(string(data), " \t\r\n\x00"), err}
		t.files[name] = f
	}
	switch {
	case errors.Is(f.err, fs.ErrNotExist):
		return "", false
	case f.err != nil:
		t.warn(Unreadable, name, "%v", f.err)
		return "", false
	}
	t.seen.file(name, f.text)
	return f.text, true
}

func (t *tree) read(name string) ([]byte, error) {
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	return data, nil
}

// value reads a file and parses its text; ok is false if the file or a valid value is missing.
func value[T any](t *tree, name string, parse func(string) (T, error)) (v T, ok bool) {
	s, ok := t.text(name)
	if !ok {
		return v, false
	}
	v, err := parse(s)
	if err != nil {
		t.warn(Malformed, name, "%v", err)
	}
	return v, err == nil
}

// ids reads a file in the kernel's list format.
func ids[T ~int](t *tree, name string) (idset.Set[T], bool) { return value(t, name, idset.Parse[T]) }

// number reads a file with one decimal number. If there is no number within the bounds, number returns the value
// absent.
func (t *tree) number(name string, absent, low, high int) int {
	n, ok := value(t, name, func(s string) (int, error) { return parseNumber(s, low, high) })
	if !ok {
		return absent
	}
	return n
}

// cpus reads a set of CPUs from the first existing list, or else from the first mask: old kernels have only masks.
func (t *tree) cpus(dir string, lists, masks []string) (cpuSet, bool) {
	for _, name := range lists {
		if set, ok := ids[idset.CPU](t, path.Join(dir, name)); ok {
			return set, true
		}
	}
	for _, name := range masks {
		if set, ok := value(t, path.Join(dir, name), parseMask); ok {
			return set, true
		}
	}
	return cpuSet{}, false
}

// names lists a directory in ascending order; a missing directory is empty.
func (t *tree) names(dir string) []string {
	out, err := t.list(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.warn(Unreadable, dir, "%v", err)
	}
	return out
}

// list returns the names in a directory in ascending order. The caller must not change them.
func (t *tree) list(dir string) ([]string, error) {
	d, known := t.dirs[dir]
	if !known {
		d.names, d.err = t.readDir(dir)
		t.dirs[dir] = d
	}
	return d.names, d.err
}

func (t *tree) readDir(dir string) ([]string, error) {
	f, err := t.fsys.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, errors.New("not a directory")
	}
	entries, err := d.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("more than %d entries", maxEntries)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out, nil
}

// numbered returns the numbers of the entries of a directory whose names are the prefix and a number, ascending.
func (t *tree) numbered(dir, prefix string) []int {
	var out []int
	for _, name := range t.names(dir) {
		digits, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && strconv.Itoa(n) == digits && idset.Valid(n) {
			out = append(out, n)
			t.seen.directory(path.Join(dir, name))
		}
	}
	slices.Sort(out)
	return out
}

// link returns the target of a symbolic link of the tree, as a path of the tree. ok is false if there is no such
// link, or if its target is not below the directory under.
func (t *tree) link(name, under string) (target string, ok bool) {
	to, err := fs.ReadLink(t.fsys, name)
	if err != nil || path.IsAbs(to) {
		return "", false
	}
	target = path.Join(path.Dir(name), to)
	if !strings.HasPrefix(target, under+"/") {
		return "", false
	}
	t.seen.link(name, to)
	return target, true
}
