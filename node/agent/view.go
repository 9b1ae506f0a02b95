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
	kind  runtime.Object // an empty object
	// trim keeps of an object what its reader needs.
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
		watch: objects.Watch, kind: &metav1.PartialObjectMetadata{}, trim: bare,
	}
}

// view tells of one object by a watch of its name. Lists and watches are answered from the API server's
// cache, and cost etcd nothing.
type view struct {
	informer cache.Controller
	open     atomic.Bool // whether the last list or watch that was tried is one that the server gave
}

// newView tells event of every state that an object is in, once it runs.
func newView(objects source, name string, event func(o metav1.Object, deleted bool)) *view {
	v := &view{}
	mine := fields.OneTermEqualSelector("metadata.name", name).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = mine
			list, err := objects.list(ctx, o)
			if err != nil {
				v.open.Store(false)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = mine
			w, err := objects.watch(ctx, o)
			v.open.Store(err == nil)
			return w, err
		},
	}
	tell := func(obj any, deleted bool) {
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		if o, ok := obj.(metav1.Object); ok {
			event(o, deleted)
		}
	}
	_, v.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    objects.kind,
		Transform:     objects.trim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { tell(obj, false) },
			UpdateFunc: func(_, obj any) { tell(obj, false) },
			DeleteFunc: func(obj any) { tell(obj, true) },
		},
	})
	return v
}

// bare keeps what tells versions apart.
func bare(obj any) (any, error) {
	if p, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{TypeMeta: p.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Generation: p.Generation,
			Labels: p.Labels, OwnerReferences: p.OwnerReferences}}, nil
	}
	return obj, nil
}

// sees reports whether changes are told. Where they are not, the object has to be read to know of any.
func (v *view) sees() bool { return v.open.Load() }

func (v *view) run(ctx context.Context) { v.informer.RunWithContext(ctx) }
