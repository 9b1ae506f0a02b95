package sysfs

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// record has the files, links and directories of a tree that discovery has read. It contains only what discovery
// uses, and so no address of a network card, no serial number and no host name. A nil record records nothing.
type record struct {
	files, links map[string]string
	dirs         map[string]bool
}

func newRecord() *record {
	return &record{files: map[string]string{}, links: map[string]string{}, dirs: map[string]bool{}}
}

func (r *record) file(name, text string) {
	if r == nil {
		return
	}
	if path.Base(name) == "meminfo" {
		// The rest of the file changes all the time.
		for line := range strings.Lines(text) {
			if strings.Contains(line, "MemTotal:") {
				text = strings.Trim(line, " \t\r\n\x00")
				break
			}
		}
	}
	r.files[name] = text
}

func (r *record) link(name, target string) {
	if r != nil {
		r.links[name] = target
	}
}

func (r *record) directory(name string) {
	if r != nil {
		r.dirs[name] = true
	}
}

// emptyDirs returns the directories in which no file or link was read. A snapshot need not list the others, because
// the paths of their files imply them.
func (r *record) emptyDirs() []string {
	full := map[string]bool{}
	for _, names := range []map[string]string{r.files, r.links} {
		for name := range names {
			for dir := path.Dir(name); dir != "." && !full[dir]; dir = path.Dir(dir) {
				full[dir] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.dirs)), func(dir string) bool { return full[dir] })
}
