package sysfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/node/sysfs"
)

// countingFS counts how often each path is opened or its link is read.
type countingFS struct {
	fs.FS
	opened, links map[string]int
}

func newCountingFS(fsys fs.FS) *countingFS {
	return &countingFS{fsys, map[string]int{}, map[string]int{}}
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.FS.Open(name)
}

func (c *countingFS) ReadLink(name string) (string, error) {
	c.links[name]++
	return fs.ReadLink(c.FS, name)
}

func (c *countingFS) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(c.FS, name) }

// A survey of the machine and of the PCI functions opens each file and directory of /sys and /proc once.
func TestSurveyReadsEachFileOnce(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshots: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := sysfs.ReadSnapshot(strings.NewReader(string(data)))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		c := newCountingFS(tree)
		s := sysfs.NewSurvey(c)
		found, err := s.Machine()
		if err != nil {
			continue // a snapshot that describes no machine
		}
		if _, _, err := s.Functions(found.Machine); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(c.opened) < 10 {
			t.Errorf("%s: only %d paths are opened", file, len(c.opened))
		}
		for _, counts := range []map[string]int{c.opened, c.links} {
			for name, n := range counts {
				if n > 1 {
					t.Errorf("%s: %s is read %d times, want once", file, name, n)
				}
			}
		}
	}
}
