package agent

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// own watches the agent's own layout, so that one that somebody else changed or deleted is written again
// at once. It watches metadata only: the API server raises an object's generation with every change that
// is not one of its status.
type own struct {
	informer cache.Controller
	changed  func()

	// mu is held while the agent writes, so that an event of its own write is met after the answer.
	mu    sync.Mutex
	known version
}

// version is one content of an object; the zero version is of no object that is known.
type version struct {
	uid        types.UID
	generation int64
}

func newOwn(rc *rest.Config, node string, changed func()) (*own, error) {
	client, err := metadata.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("make metadata client for %s: %w", rc.Host, err)
	}
	layouts, mine := client.Resource(v1alpha1.NodeLayoutResource()), fields.OneTermEqualSelector("metadata.name", node).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = mine
			return layouts.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = mine
			return layouts.Watch(ctx, o)
		},
	}
	w := &own{changed: changed}
	_, w.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    &metav1.PartialObjectMetadata{},
		Transform:     bare,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { w.event(obj, false) },
			UpdateFunc: func(_, obj any) { w.event(obj, false) },
			DeleteFunc: func(obj any) { w.event(obj, true) },
		},
	})
	return w, nil
}

// bare keeps what tells versions apart.
func bare(obj any) (any, error) {
	if p, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{TypeMeta: p.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Generation: p.Generation}}, nil
	}
	return obj, nil
}

func (w *own) run(ctx context.Context) { w.informer.RunWithContext(ctx) }

func (w *own) event(obj any, deleted bool) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	p, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch known := w.known; {
	case known == version{}: // the first look reads the object anyway
	case deleted && p.UID == known.uid, !deleted && (p.UID != known.uid || p.Generation > known.generation):
		w.changed()
	}
}

// write does a write and keeps which version it made; after a failure every version is somebody else's.
func (w *own) write(do func() (*v1alpha1.NodeLayout, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, err := do()
	if err != nil {
		w.known.generation = 0
		return err
	}
	w.known = versionOf(l)
	return nil
}

// read keeps which version the agent has read, and reports whether it is one that was not known.
func (w *own) read(l *v1alpha1.NodeLayout) (fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.known
	w.known = versionOf(l)
	return before != w.known
}

func versionOf(l *v1alpha1.NodeLayout) version { return version{l.UID, l.Generation} }
