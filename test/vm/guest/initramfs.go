package guest

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

//go:embed init.sh
var initScript []byte

//go:embed begin.sh
var beginScript []byte

//go:embed serve.sh
var serveScript []byte

// maxFiles bounds the caller's files of a guest.
const maxFiles = 1 << 12

// writeInitramfs writes the archive with busybox, scripts, modules and files. It is not compressed: the
// guest would take longer to unpack it than the host takes to read it.
func writeInitramfs(file string, c Config, p *Parts) error {
	files, err := archiveFiles(c, p)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	archive := &cpio{w: w}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := archive.addFile(name, files[name]); err != nil {
			return errors.Join(fmt.Errorf("write initramfs: %w", err), f.Close())
		}
	}
	if err := errors.Join(archive.writeTrailer(), w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	return nil
}

// archiveFiles returns every file of the archive by its path in it, directories included.
func archiveFiles(c Config, p *Parts) (map[string]File, error) {
	modules := slices.Clone(c.Modules)
	out := map[string]File{
		"bin/busybox":    {Host: p.Busybox, Mode: 0o755},
		"init":           {Data: slices.Concat([]byte("#!/bin/busybox sh\n"), initScript), Mode: 0o755},
		"guest/begin.sh": {Data: beginScript},
		"guest/serve.sh": {Data: serveScript},
		// The kernel opens /dev/console, if it exists, before init mounts /dev.
		"dev": {Mode: fs.ModeDir | 0o755},
	}
	prefix := ""
	if c.Disk != "" {
		prefix = "guest/files"
		out["guest/disk"] = File{}
		modules = append(modules, "virtio_pci", "virtio_blk")
	}
	if c.Network {
		out["guest/network"] = File{}
		modules = append(modules, "virtio_pci", "virtio_net")
	}
	loaded, err := loadModules(p.Modules, modules)
	if err != nil {
		return nil, err
	}
	var list bytes.Buffer
	for _, m := range loaded {
		out["guest/ko/"+m.name] = File{Data: m.data}
		fmt.Fprintln(&list, m.name)
	}
	out["guest/modules"] = File{Data: list.Bytes()}
	if len(c.Files) > maxFiles {
		return nil, fmt.Errorf("%d files of the guest, the most is %d", len(c.Files), maxFiles)
	}
	for name, f := range c.Files {
		if !path.IsAbs(name) || path.Clean(name) != name || name == "/" || strings.ContainsRune(name, 0) {
			return nil, fmt.Errorf("file of the guest %q: not a clean absolute path", name)
		}
		out[path.Join(prefix, name[1:])] = f
	}
	for name := range maps.Clone(out) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if f, ok := out[dir]; ok && !f.Mode.IsDir() {
				return nil, fmt.Errorf("file of the guest %q is below %q, which is no directory", "/"+name, "/"+dir)
			}
			out[dir] = File{Mode: fs.ModeDir | 0o755}
		}
	}
	return out, nil
}

// addFile adds a file to the archive.
func (c *cpio) addFile(name string, f File) error {
	if f.Host == "" {
		c.add(name, f.Mode, int64(len(f.Data)), bytes.NewReader(f.Data))
		return c.err
	}
	host, err := os.Open(f.Host)
	if err != nil {
		return err
	}
	defer host.Close()
	info, err := host.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", f.Host)
	}
	c.add(name, f.Mode, info.Size(), io.Reader(host))
	return c.err
}
