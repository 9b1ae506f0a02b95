package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Dir returns the files below a directory, as os.DirFS does, but opens only regular files. Opening a FIFO blocks until
// a writer opens it, a device may do anything, and neither can be interrupted.
func Dir(path string) fs.FS { return regular(path) }

type regular string

var errNotRegular = errors.New("not a regular file")

// Open implements fs.FS.
func (dir regular) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	path := filepath.Join(string(dir), filepath.FromSlash(name))
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w but %s", path, errNotRegular, info.Mode().Type())
	}
	// The file may have been replaced by a FIFO since: open it without blocking, and check again.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: %w but %s", path, errNotRegular, info.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
