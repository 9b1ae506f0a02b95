package live

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/nrt"
)

// follow starts a source for each resource, and returns all sources. NodeResourceTopologies, Numatopologies, and slices
// and claims of devices have a source only if the API server serves them when follow is called.
func (v *View) follow(ctx context.Context, cfg *rest.Config, namespaces []string) ([]*source, error) {
	core, err := objects.NewCore(cfg)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client of custom resources: %w", err)
	}
	all := []*source{
		viaTyped(core.Nodes, &source{resource: "nodes", trim: trimmed(trimNode), put: v.putNode, gone: v.nodeGone}),
		viaUntyped(untyped, v1alpha1.NodeLayoutResource(), &source{trim: v1alpha1.Typed, put: v.putLayout,
			gone: v.layoutGone}),
		viaUntyped(untyped, v1alpha1.LayoutBaseResource(), &source{optional: true, trim: v1alpha1.TypedBase, put: v.putBase,
			gone: v.baseGone}),
	}
	all = append(all, v.podSources(ctx, core, namespaces)...)
	if r, ok := servedTopologies(ctx, untyped); ok {
		all = append(all, viaUntyped(untyped, r, &source{optional: true, trim: nrt.Typed, put: v.putTopology,
			gone: v.topologyGone}))
	}
	volcanos := nrt.Numatopologies()
	if _, err := untyped.Resource(volcanos).List(ctx, metav1.ListOptions{Limit: 1}); !apierrors.IsNotFound(err) {
		all = append(all, viaUntyped(untyped, volcanos, &source{optional: true, trim: nrt.TypedNumatopology,
			put: v.putTopology, gone: v.topologyGone}))
	}
	devices, err := v.deviceSources(ctx, cfg, namespaces)
	if err != nil {
		return nil, err
	}
	all = append(all, devices...)
	for _, s := range all {
		s.view, s.answered, s.kept = v, make(chan struct{}), map[types.NamespacedName]any{}
		go s.run(ctx)
	}
	return all, nil
}

// everywhere is the place of the source of all pods; see source.where. forbiddenPods is why it has none.
const (
	everywhere    = "in all namespaces"
	forbiddenPods = "you may not list pods " + everywhere
)

// podSources returns the source of all pods. If the identity may not list them, and there are namespaces, it returns
// one source for each namespace.
func (v *View) podSources(ctx context.Context, core *objects.Core, namespaces []string) (out []*source) {
	newSource := func(where, namespace string) *source {
		return &source{resource: "pods", where: where, namespace: namespace, trim: trimmed(trimPod),
			put: v.putPod, gone: v.podGone, unread: v.podUnread, read: func(has bool) { v.setRead(namespace, has) }}
	}
	_, err := core.Pods.List(ctx, metav1.ListOptions{Limit: 1})
	if !apierrors.IsForbidden(err) || len(namespaces) == 0 {
		return []*source{viaTyped(core.Pods, newSource(everywhere, ""))}
	}
	v.setLimit("pods "+everywhere, forbiddenPods)
	v.followed = namespaces
	for _, namespace := range namespaces {
		out = append(out, viaTyped(core.Pods.In(namespace), newSource("in namespace "+namespace, namespace)))
	}
	return out
}

// servedTopologies returns the resource under which the API server serves NodeResourceTopologies. ok is false if
// there is none.
func servedTopologies(ctx context.Context, untyped dynamic.Interface) (schema.GroupVersionResource, bool) {
	for _, r := range nrt.Resources() {
		if _, err := untyped.Resource(r).List(ctx, metav1.ListOptions{Limit: 1}); !apierrors.IsNotFound(err) {
			return r, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// viaTyped lets a source use a typed client for its lists and watches, and returns the source.
func viaTyped[T objects.Object, L runtime.Object](c *objects.Client[T, L], s *source) *source {
	s.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) }
	s.watch = c.Watch
	return s
}

// viaUntyped lets a source use an untyped client for its lists and watches of a custom resource, and returns the
// source. Each object is decoded by itself, so one that does not decode affects no other.
func viaUntyped(c dynamic.Interface, r schema.GroupVersionResource, s *source) *source {
	s.resource, s.page = r.Resource, customPage
	s.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.Resource(r).List(ctx, o)
	}
	s.watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return c.Resource(r).Watch(ctx, o)
	}
	return s
}

// trimmed returns an informer's transform that applies a function to objects of one type. The transform returns
// objects of other types unchanged.
func trimmed[T v1.Pod | v1.Node](trim func(*T) *T) func(any) (any, error) {
	return func(obj any) (any, error) {
		if o, ok := obj.(*T); ok {
			return trim(o), nil
		}
		return obj, nil
	}
}
