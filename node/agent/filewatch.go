package agent

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
)

// watchedFile is a file whose change triggers a reconcile.
type watchedFile struct {
	path string
	full bool // read everything again, not only the holdings of containers
	dir  bool // path is a directory, and all files in it are watched
}

// watchDir returns the directory to watch. A watch of the file itself would be lost when another file is renamed to
// its path, which is how the kubelet replaces its state files.
func (w watchedFile) watchDir() string {
	if w.dir {
		return filepath.Clean(w.path)
	}
	return filepath.Dir(w.path)
}

// matches reports whether a cleaned path is the watched file or, for a directory, one of the files in it.
func (w watchedFile) matches(path string) bool {
	if w.dir {
		return filepath.Dir(path) == filepath.Clean(w.path)
	}
	return path == filepath.Clean(w.path)
}

// watchFiles triggers reconciles when the files change, until ctx ends. It watches their directories. Every second it
// tries again to watch the directories that were missing.
func watchFiles(ctx context.Context, log logr.Logger, files []watchedFile, t *triggers) {
	for ctx.Err() == nil {
		w, err := fsnotify.NewWatcher()
		if err != nil {
			log.Error(err, "cannot watch files; relying on the resync")
			pause(ctx, lastRetry)
			continue
		}
		f := &fileWatch{log: log, files: files, triggers: t, watcher: w, missing: map[string]bool{}}
		f.run(ctx)
		_ = w.Close() // an error of Close cannot be handled
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

// fileWatch watches files with one watcher.
type fileWatch struct {
	log      logr.Logger
	files    []watchedFile
	triggers *triggers
	watcher  *fsnotify.Watcher
	missing  map[string]bool // directories that could not be watched yet
}

// run watches until ctx ends or the watcher has closed.
func (f *fileWatch) run(ctx context.Context) {
	for _, x := range f.files {
		f.missing[x.watchDir()] = true
	}
	f.addMissing(false)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		// The ticker runs only while directories are missing.
		var retry <-chan time.Time
		if len(f.missing) > 0 {
			retry = again.C
		}
		select {
		case <-ctx.Done():
			return
		case <-retry:
			f.addMissing(true)
		case e, ok := <-f.watcher.Events:
			if !ok {
				return
			}
			f.event(e)
		case err, ok := <-f.watcher.Errors:
			if !ok {
				return
			}
			// The queue overflowed and events were lost, so everything may have changed.
			f.log.V(1).Info("watching files", "error", err.Error())
			f.triggers.everything()
		}
	}
}

// addMissing watches the missing directories that exist by now. With trigger, each of them triggers a reconcile,
// because its content is unknown.
func (f *fileWatch) addMissing(trigger bool) {
	for dir := range f.missing {
		if f.watcher.Add(dir) == nil {
			delete(f.missing, dir)
			if trigger {
				f.triggers.everything()
			}
		}
	}
}

// event triggers a reconcile if the event is about one of the files. It ignores changes of permissions. A watched
// directory that was removed or renamed counts as missing, because its watch has ended.
func (f *fileWatch) event(e fsnotify.Event) {
	path := filepath.Clean(e.Name)
	if e.Has(fsnotify.Chmod) {
		return
	}
	if f.missing[path] {
		f.addMissing(true)
	}
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		if slices.ContainsFunc(f.files, func(x watchedFile) bool { return x.watchDir() == path }) {
			f.missing[path] = true
		}
	}
	for _, x := range f.files {
		if !x.matches(path) {
			continue
		}
		if x.full {
			f.triggers.everything()
		} else {
			f.triggers.holdings()
		}
	}
}
