package agent

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// own watches an object that the agent writes, so that one that somebody else changed or deleted is written
// again at once. It watches metadata only: the API server raises an object's generation with every change
// but those of its status and of its metadata, and of the latter the agent's own part is compared.
type own struct {
	*view
	labels  []string // the keys of those that the agent writes
	changed func()
	there   chan struct{} // closed when the object was there once: before that there may be no such kind

	// mu is held while the agent writes, so that an event of its own write is met after the answer.
	mu    sync.Mutex
	known version
	odd   bool // somebody else has written since the object was last read
}

// version is one content of an object; the zero version is of no object that is known.
type version struct {
	uid        types.UID
	generation int64
	mark       string
}

func newOwn(objects metadata.ResourceInterface, name string, labels []string, changed func()) *own {
	w := &own{labels: labels, changed: changed, there: make(chan struct{})}
	w.view = newView(metadataOf(objects), name, w.event)
	return w
}

// run watches from when the agent first has read or written the object.
func (w *own) run(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-w.there:
		w.view.run(ctx)
	}
}

func (w *own) event(p metav1.Object, deleted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch now, known := w.versionOf(p), w.known; {
	case known == version{}: // the next look reads the object anyway
	case deleted && now.uid == known.uid, !deleted && now != known && (now.uid != known.uid || now.generation >= known.generation):
		w.odd = true
		w.changed()
	}
}

// strange reports, once, whether somebody else has written the object.
func (w *own) strange() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	odd := w.odd
	w.odd = false
	return odd
}

// write does a write, or what may end in one, and keeps which version the server then has; nil is for one
// that nothing was learned of. After a failure every version is somebody else's.
func (w *own) write(do func() (metav1.Object, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	is, err := do()
	if err != nil {
		w.known.generation = 0
		return err
	}
	if is != nil {
		w.keep(w.versionOf(is))
	}
	return nil
}

// read keeps which version the agent has read, nil where there is none, and reports whether it has a content
// that was not known.
func (w *own) read(is metav1.Object) (fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, now := w.known, version{}
	if is != nil {
		now = w.versionOf(is)
	}
	w.keep(now)
	return before.uid != now.uid || before.generation != now.generation
}

func (w *own) keep(now version) {
	w.known = now
	if now == (version{}) {
		return
	}
	select {
	case <-w.there:
	default:
		close(w.there)
	}
}

func (w *own) versionOf(o metav1.Object) version {
	return version{o.GetUID(), o.GetGeneration(), mark(o, w.labels)}
}

// mark is what the agent decides of an object's metadata: which Node owns it, and the labels of these keys.
func mark(o metav1.Object, labels []string) string {
	var owner types.UID
	for _, r := range o.GetOwnerReferences() {
		if r.Kind == "Node" {
			owner = r.UID
		}
	}
	return fmt.Sprintf("%s %q", owner, pick(o.GetLabels(), labels))
}
