package agent

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
)

// watched is a file whose change matters; full says that it matters to more than the holdings.
type watched struct {
	path string
	full bool
}

// watchFiles reports changes of the files until ctx ends. It watches their directories, because the
// files are replaced by renaming; a directory that is missing is looked for every second.
func watchFiles(ctx context.Context, log logr.Logger, files []watched, c *changes) {
	for ctx.Err() == nil {
		w, err := fsnotify.NewWatcher()
		if err != nil {
			log.Error(err, "cannot watch files; relying on the resync")
			pause(ctx, lastRetry)
			continue
		}
		f := &fileWatch{log: log, files: files, changes: c, w: w, missing: map[string]bool{}}
		f.run(ctx)
		w.Close()
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

type fileWatch struct {
	log     logr.Logger
	files   []watched
	changes *changes
	w       *fsnotify.Watcher
	missing map[string]bool // directories
}

func (f *fileWatch) run(ctx context.Context) {
	for _, x := range f.files {
		f.missing[filepath.Dir(x.path)] = true
	}
	f.seek(false)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			f.seek(true)
		case e, ok := <-f.w.Events:
			if !ok {
				return
			}
			f.event(e)
		case err, ok := <-f.w.Errors:
			if !ok {
				return
			}
			// The queue overflowed: what was lost is not known, so everything may have changed.
			f.log.V(1).Info("watching files", "error", err.Error())
			f.changes.every()
		}
	}
}

// seek adds the missing directories; one that appeared may have any content.
func (f *fileWatch) seek(report bool) {
	for dir := range f.missing {
		if f.w.Add(dir) == nil {
			delete(f.missing, dir)
			if report {
				f.changes.every()
			}
		}
	}
}

func (f *fileWatch) event(e fsnotify.Event) {
	path := filepath.Clean(e.Name)
	if e.Has(fsnotify.Chmod) {
		return
	}
	if f.missing[path] {
		f.seek(true)
	}
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		if slices.ContainsFunc(f.files, func(x watched) bool { return filepath.Dir(x.path) == path }) {
			f.missing[path] = true
		}
	}
	for _, x := range f.files {
		if filepath.Clean(x.path) != path {
			continue
		}
		if x.full {
			f.changes.every()
		} else {
			f.changes.some()
		}
	}
}
