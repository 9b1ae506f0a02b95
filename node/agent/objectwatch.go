package agent

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// source lists and watches the objects of one kind.
type source struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	kind  runtime.Object // an empty object of the kind
	// trim drops the unused parts of an object.
	trim cache.TransformFunc
}

// metadataOf lists and watches the metadata of objects.
func metadataOf(objects metadata.ResourceInterface) source {
	return source{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := objects.List(ctx, o)
			if err != nil {
				return nil, err
			}
			return list, nil
		},
		watch: objects.Watch, kind: &metav1.PartialObjectMetadata{}, trim: trimMetadata,
	}
}

// objectWatch watches one object by its name. The API server answers from its cache, which costs etcd nothing.
type objectWatch struct {
	informer cache.Controller
	isOpen   atomic.Bool // the last attempt to list or watch succeeded
}

// newObjectWatch returns a watch of the object with the name. While it runs, it calls onEvent with every state of the
// object that it receives; deleted is true for the last state of a deleted object.
func newObjectWatch(objects source, name string, onEvent func(o metav1.Object, deleted bool)) *objectWatch {
	w := &objectWatch{}
	byName := fields.OneTermEqualSelector("metadata.name", name).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = byName
			list, err := objects.list(ctx, o)
			if err != nil {
				w.isOpen.Store(false)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = byName
			events, err := objects.watch(ctx, o)
			w.isOpen.Store(err == nil)
			return events, err
		},
	}
	notify := func(obj any, deleted bool) {
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		if o, ok := obj.(metav1.Object); ok {
			onEvent(o, deleted)
		}
	}
	_, w.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    objects.kind,
		Transform:     objects.trim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { notify(obj, false) },
			UpdateFunc: func(_, obj any) { notify(obj, false) },
			DeleteFunc: func(obj any) { notify(obj, true) },
		},
	})
	return w
}

// trimMetadata keeps the fields that identify an object and that selfWatch compares.
func trimMetadata(obj any) (any, error) {
	if p, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{TypeMeta: p.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Generation: p.Generation,
			Labels: p.Labels, OwnerReferences: p.OwnerReferences}}, nil
	}
	return obj, nil
}

// open reports whether the watch receives changes. While it does not, the agent has to read the object to find them.
func (w *objectWatch) open() bool { return w.isOpen.Load() }

func (w *objectWatch) run(ctx context.Context) { w.informer.RunWithContext(ctx) }
