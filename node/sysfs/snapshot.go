package sysfs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

// A snapshot is a txtar archive of exactly the files that discovery read. A symbolic link is an empty file named "LINK
// -> TARGET", an empty directory one named "DIR/". The first line identifies the archive.

const (
	snapshotTitle = "tenon machine snapshot, version 1"
	arrow         = " -> "
	// maxSnapshot is far more than a machine within topo's bounds needs.
	maxSnapshot = 32 << 20
	maxLinks    = 8
)

// Snapshot writes the part of a tree that discovery reads, including PCI functions. It drops blanks around the text
// of a file, and of meminfo keeps only MemTotal. If no machine can be made of the tree, Snapshot writes what was read
// so far. The comment of the archive has the reason, and lists the warnings.
func Snapshot(fsys fs.FS, w io.Writer) error {
	t := newTree(fsys)
	t.seen = newRecord()
	comment := snapshotTitle + "\n"
	var m *topo.Machine
	found, err := discover(t)
	if err != nil {
		comment += "error: " + oneLine(err.Error()) + "\n"
	} else {
		m = found.Machine
	}
	if _, err := t.functions(m); err != nil {
		comment += "error: " + oneLine(err.Error()) + "\n"
	}
	for _, warning := range t.warnings.list() {
		comment += "warning: " + oneLine(warning.String()) + "\n"
	}
	a := txtar.Archive{Comment: []byte(comment)}
	for _, name := range t.seen.emptyDirs() {
		a.Files = append(a.Files, txtar.File{Name: name + "/"})
	}
	for _, name := range slices.Sorted(maps.Keys(t.seen.links)) {
		a.Files = append(a.Files, txtar.File{Name: name + arrow + t.seen.links[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(t.seen.files)) {
		a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(t.seen.files[name])})
	}
	slices.SortFunc(a.Files, func(x, y txtar.File) int { return strings.Compare(x.Name, y.Name) })
	data := txtar.Format(&a)
	if err := t.seen.verify(data); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// verify checks a snapshot by reading it again, and returns an error for what a reader would refuse or misread:
// certain names, texts that look like other files, and too many bytes.
func (r *record) verify(data []byte) error {
	a, err := parseSnapshot(data)
	if err != nil {
		return err
	}
	for _, name := range r.emptyDirs() {
		if !a[name].dir {
			return fmt.Errorf("name %q cannot be kept", clip(name))
		}
	}
	for name, target := range r.links {
		if a[name].link != target {
			return fmt.Errorf("link %q to %q cannot be kept", clip(name), clip(target))
		}
	}
	for name, text := range r.files {
		e, ok := a[name]
		switch {
		case !ok || e.dir || e.link != "":
			return fmt.Errorf("name %q cannot be kept", clip(name))
		case strings.TrimSuffix(string(e.data), "\n") != text:
			return fmt.Errorf("text of %q cannot be kept", clip("/"+name))
		}
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// IsSnapshot reports whether data begins as a snapshot does.
func IsSnapshot(data []byte) bool { return bytes.HasPrefix(data, []byte(snapshotTitle)) }

// ReadSnapshot reads the output of [Snapshot], and returns it as a tree for Discover.
func ReadSnapshot(r io.Reader) (fs.FS, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return parseSnapshot(data)
}

// parseSnapshot returns the tree of a snapshot. It checks every bound of snapshots. Snapshot parses its own output
// with it, too.
func parseSnapshot(data []byte) (archive, error) {
	if len(data) > maxSnapshot {
		return nil, fmt.Errorf("snapshot is larger than %d bytes", maxSnapshot)
	}
	if !IsSnapshot(data) {
		return nil, fmt.Errorf("not a snapshot: the first line is not %q", snapshotTitle)
	}
	a := archive{".": {dir: true}}
	for _, f := range txtar.Parse(data).Files {
		if err := a.add(f.Name, f.Data); err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
	}
	return a, nil
}

// Read makes a machine of a file: of a snapshot, or else of the text form of topo.
func Read(data []byte) (*Found, error) {
	if IsSnapshot(data) {
		fsys, err := ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return Discover(fsys)
	}
	text, err := topo.ParseText(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	m, err := topo.New(text.Spec)
	if err != nil {
		return nil, err
	}
	kinds := map[idset.NUMA]MemoryKind{}
	for _, n := range m.NUMAs() {
		if kinds[n.ID] = cmp.Or(MemoryKind(n.MemoryKind), OrdinaryMemory); n.Bytes == 0 {
			kinds[n.ID] = NoMemory
		}
	}
	return &Found{Machine: m, Kinds: kinds}, nil
}

var errKind = errors.New("both a file and a directory, or named twice")
