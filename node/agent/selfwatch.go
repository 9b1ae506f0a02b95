package agent

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// selfWatch watches an object that the agent writes, so that the agent rewrites it at once if another writer changed
// or deleted it. The metadata is enough for that: the API server raises an object's generation with every change
// outside of status and metadata, and selfWatch compares the agent's own part of the metadata itself.
type selfWatch struct {
	*objectWatch
	labels   []string // the keys of the labels that the agent writes
	onChange func()
	// exists is closed once the agent has read or written the object. Before that, the API server may not serve its kind.
	exists chan struct{}

	// mu is held while the agent writes, so that the event of its own write is handled after the answer.
	mu      sync.Mutex
	known   version
	foreign bool // another writer has written since the last takeForeignWrite
}

// version identifies one content of an object. The zero version means that no object is known.
type version struct {
	uid        types.UID
	generation int64
	metadata   string
}

func newSelfWatch(objects metadata.ResourceInterface, name string, labels []string, onChange func()) *selfWatch {
	w := &selfWatch{labels: labels, onChange: onChange, exists: make(chan struct{})}
	w.objectWatch = newObjectWatch(metadataOf(objects), name, w.event)
	return w
}

// run starts to watch when the agent has first read or written the object.
func (w *selfWatch) run(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-w.exists:
		w.objectWatch.run(ctx)
	}
}

// event receives a state of the object from the watch, and records a foreign write if the known object was deleted,
// or if the state differs from the known version and is not older. Older states come from earlier writes of the agent
// itself.
func (w *selfWatch) event(p metav1.Object, deleted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, known := w.versionOf(p), w.known
	if known == (version{}) {
		return // the next reconcile reads the object anyway
	}
	newer := now.uid != known.uid || now.generation >= known.generation
	if deleted && now.uid == known.uid || !deleted && now != known && newer {
		w.foreign = true
		w.onChange()
	}
}

// takeForeignWrite reports whether another writer has written the object since the last call.
func (w *selfWatch) takeForeignWrite() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	foreign := w.foreign
	w.foreign = false
	return foreign
}

// write calls do, which may write the object and returns the object that it wrote or read. write keeps the version of
// that object as the known one. If do returns no object, the known version stays. After an error the API server may
// still have written, so the next version that the watch receives counts as foreign.
func (w *selfWatch) write(do func() (metav1.Object, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	object, err := do()
	if err != nil {
		w.known.generation = 0
		return err
	}
	if object != nil {
		w.keep(w.versionOf(object))
	}
	return nil
}

// read keeps the version of the object that the agent has read, and reports whether its UID or generation is new. A nil
// object means that the object does not exist.
func (w *selfWatch) read(object metav1.Object) (fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, now := w.known, version{}
	if object != nil {
		now = w.versionOf(object)
	}
	w.keep(now)
	return before.uid != now.uid || before.generation != now.generation
}

// keep makes now the known version. If the object exists, keep lets run begin to watch it.
func (w *selfWatch) keep(now version) {
	w.known = now
	if now == (version{}) {
		return
	}
	select {
	case <-w.exists:
	default:
		close(w.exists)
	}
}

func (w *selfWatch) versionOf(o metav1.Object) version {
	return version{o.GetUID(), o.GetGeneration(), metadataMark(o, w.labels)}
}

// metadataMark returns the agent's part of an object's metadata in a form that can be compared: the Node that owns the
// object, and the labels with these keys.
func metadataMark(o metav1.Object, labels []string) string {
	var owner types.UID
	for _, r := range o.GetOwnerReferences() {
		if r.Kind == "Node" {
			owner = r.UID
		}
	}
	return fmt.Sprintf("%s %q", owner, pick(o.GetLabels(), labels))
}
