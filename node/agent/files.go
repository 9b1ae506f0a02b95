package agent

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
)

// watched is a file whose change matters, or with all a directory whose files do; full says that it
// matters to more than the holdings.
type watched struct {
	path      string
	full, all bool
}

// dir is the directory to watch: files are replaced by renaming.
func (w watched) dir() string {
	if w.all {
		return filepath.Clean(w.path)
	}
	return filepath.Dir(w.path)
}

// is reports whether a path, cleaned, is the file or one of the files.
func (w watched) is(path string) bool {
	if w.all {
		return filepath.Dir(path) == filepath.Clean(w.path)
	}
	return path == filepath.Clean(w.path)
}

// watchFiles reports changes of the files until ctx ends. It watches their directories; one that is
// missing is looked for every second.
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
		f.missing[x.dir()] = true
	}
	f.seek(false)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		// Nothing ticks as long as nothing is missing.
		var seek <-chan time.Time
		if len(f.missing) > 0 {
			seek = again.C
		}
		select {
		case <-ctx.Done():
			return
		case <-seek:
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
		if slices.ContainsFunc(f.files, func(x watched) bool { return x.dir() == path }) {
			f.missing[path] = true
		}
	}
	for _, x := range f.files {
		if !x.is(path) {
			continue
		}
		if x.full {
			f.changes.every()
		} else {
			f.changes.some()
		}
	}
}
