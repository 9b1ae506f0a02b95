package sysfs

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// maxPath bounds the length of a path, and thereby the depth of a tree.
const maxPath = 512

// archive is the tree of a snapshot, by path. It has all directories, "." included. Open follows a link at the end of
// a path. Links within a path are not followed, because discovery follows them itself.
type archive map[string]entry

type entry struct {
	dir      bool
	link     string // target, for a link
	data     []byte
	children []string // names in the directory, in the order of addition
}

// add adds a file, a link or an empty directory by its name in a snapshot, and the directories above it. It returns
// an error if the name is no path, or if the tree has it already.
func (a archive) add(name string, data []byte) error {
	var e entry
	if dir, ok := strings.CutSuffix(name, "/"); ok {
		name, e.dir = dir, true
	} else if from, to, ok := strings.Cut(name, arrow); ok {
		name, e.link = from, to
	} else {
		e.data = data
	}
	if !fs.ValidPath(name) || name == "." || len(name) > maxPath || strings.Contains(name, "\\") {
		return fmt.Errorf("%q is not a path of a tree", clip(name))
	}
	if _, ok := a[name]; ok {
		return fmt.Errorf("%s: %w", clip(name), errKind)
	}
	a[name] = e
	for child := name; ; child = path.Dir(child) {
		parent := path.Dir(child)
		p, known := a[parent]
		if known && !p.dir {
			return fmt.Errorf("%s: %w", clip(parent), errKind)
		}
		p.dir = true
		p.children = append(p.children, path.Base(child))
		a[parent] = p
		if known {
			return nil
		}
	}
}

// resolve returns the entry of a path, and the path. If follow is true and the entry is a link, it returns the link's
// target instead. op is for the error.
func (a archive) resolve(op, name string, follow bool) (string, entry, error) {
	if !fs.ValidPath(name) {
		return "", entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	at := name
	for range maxLinks {
		e, ok := a[at]
		switch {
		case !ok:
			return "", entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		case e.link == "" || !follow:
			return at, e, nil
		}
		at = path.Join(path.Dir(at), e.link)
	}
	return "", entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Open opens a file or a directory.
func (a archive) Open(name string) (fs.File, error) {
	at, e, err := a.resolve("open", name, true)
	if err != nil {
		return nil, err
	}
	f := &openFile{info: info{path.Base(name), e}, Reader: bytes.NewReader(e.data)}
	if e.dir {
		children := slices.Sorted(slices.Values(e.children))
		for _, child := range children {
			f.entries = append(f.entries, fs.FileInfoToDirEntry(info{child, a[path.Join(at, child)]}))
		}
	}
	return f, nil
}

// ReadLink returns the target of a link.
func (a archive) ReadLink(name string) (string, error) {
	_, e, err := a.resolve("readlink", name, false)
	if err == nil && e.link == "" {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return e.link, err
}

// Lstat describes a path without following a link.
func (a archive) Lstat(name string) (fs.FileInfo, error) {
	_, e, err := a.resolve("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), e}, nil
}

// info implements fs.FileInfo.
type info struct {
	name string
	entry
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.data)) }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	switch {
	case i.dir:
		return fs.ModeDir | 0o555
	case i.link != "":
		return fs.ModeSymlink | 0o777
	}
	return 0o444
}

// openFile implements fs.ReadDirFile for files and directories.
type openFile struct {
	info
	*bytes.Reader
	entries []fs.DirEntry
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }
func (f *openFile) Size() int64                { return f.info.Size() }

func (f *openFile) Read(p []byte) (int, error) {
	if f.dir {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrInvalid}
	}
	return f.Reader.Read(p)
}

// ReadDir returns the next n entries, or all remaining ones if n is not above 0.
func (f *openFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.dir {
		return nil, &fs.PathError{Op: "readdir", Path: f.name, Err: fs.ErrInvalid}
	}
	if n > 0 && len(f.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.entries) {
		n = len(f.entries)
	}
	out := f.entries[:n]
	f.entries = f.entries[n:]
	return out, nil
}
