package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A state or configuration file that is not regular does not block the agent: opening these would block forever.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link-to-fifo": fifo, "zero": "/dev/zero", "self": "self"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", "link-to-fifo", "zero", ".", "self"} {
		_, err := read(Dir(dir), name, maxConfig)
		if err == nil || name != "self" && !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, name := range []string{"file", "link"} {
		if data, err := read(Dir(dir), name, maxConfig); err != nil || string(data) != "x" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if err := os.Rename(fifo, filepath.Join(dir, "20.conf")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Files{{File: filepath.Join(dir, "20.conf")}, {Dir: dir}} {
		if _, err := f.Configuration(t.Context()); err == nil || !strings.Contains(err.Error(), "20.conf") ||
			!strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%+v: error %v", f, err)
		}
	}
}

// Drop-in files are bounded together, with one error: 256 of them of a megabyte each are not all read.
func TestDropInsAreBoundedTogether(t *testing.T) {
	text := header + "syncFrequency: 10s\n#"
	fill := func(n, size int, name string) Files {
		dir := t.TempDir()
		for i := range n {
			data := text + strings.Repeat("x", max(0, size-len(text)))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(name, i)), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return Files{Dir: dir}
	}
	for _, c := range []struct {
		what string
		f    Files
		want []string
	}{
		{"large ones", fill(9, 1<<17, "%03d.conf"), []string{"008.conf", "1048576 bytes together"}},
		{"many", fill(maxDropIns+1, 0, "%03d.conf"), []string{"more than 256 drop-in files"}},
		{"many others", fill(maxDropInsSeen, 0, "%04d.old"), []string{"more than 4096 files", "drop-in files only"}},
	} {
		_, err := c.f.Configuration(t.Context())
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %v does not say %q", c.what, err, w)
			}
		}
	}
	if _, err := fill(8, 1<<17, "%03d.conf").Configuration(t.Context()); err != nil {
		t.Error(err)
	}
}
