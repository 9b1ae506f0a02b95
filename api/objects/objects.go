// Package objects reads and writes the objects of an API server, with one client per resource. It links only the
// Kubernetes types that the caller names. A generated clientset registers the types of every API group, and a program
// links all types that it registers. That costs memory in an agent on every node.
//
// Invariant: a request is the same as a generated client's, in the form that the configuration sets (JSON by default).
// The configuration is never changed. The package has no retries, no caches, and no defaults of objects.
package objects

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Group has the resources of one version of one API group. Its methods may be called from any goroutine.
type Group struct {
	server rest.Interface
	params runtime.ParameterCodec
}

// NewGroup returns a group and version at the server in cfg. register adds the types of this version to a scheme; the
// package of the types has such a function, AddToScheme.
func NewGroup(cfg *rest.Config, gv schema.GroupVersion, register func(*runtime.Scheme) error) (*Group, error) {
	scheme := runtime.NewScheme()
	if err := register(scheme); err != nil {
		return nil, fmt.Errorf("register the types of %s: %w", gv, err)
	}
	c := rest.CopyConfig(cfg)
	c.GroupVersion = &gv
	c.APIPath = "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if c.UserAgent == "" {
		c.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	server, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make client of %s for %s: %w", gv, cfg.Host, err)
	}
	return &Group{server, runtime.NewParameterCodec(scheme)}, nil
}

// Create sends in to a resource without namespaces, and sets out to the object that the server stored.
func (g *Group) Create(ctx context.Context, resource string, in, out runtime.Object) error {
	return g.server.Post().Resource(resource).
		VersionedParams(&metav1.CreateOptions{}, g.params).Body(in).Do(ctx).Into(out)
}

// Object is a pointer to an object of the API server.
type Object interface {
	runtime.Object
	metav1.Object
}

// Client reads and writes the objects of one resource, in one namespace or in all. T is their type, and L the type
// of their lists. It returns the
// errors of the API server (k8s.io/apimachinery/pkg/api/errors). An object that is returned with an error must not be
// used.
type Client[T Object, L runtime.Object] struct {
	group     *Group
	resource  string
	namespace string // "" for all, and for resources without namespaces
	newObject func() T
	newList   func() L
}

// NewClient returns a client of a resource, such as "pods", in all namespaces. newObject and newList return empty
// values.
func NewClient[T Object, L runtime.Object](g *Group, resource string, newObject func() T,
	newList func() L) *Client[T, L] {
	return &Client[T, L]{group: g, resource: resource, newObject: newObject, newList: newList}
}

// In returns a client of the same resource in one namespace.
func (c *Client[T, L]) In(namespace string) *Client[T, L] {
	in := *c
	in.namespace = namespace
	return &in
}

// to adds to a request the client's resource and namespace, and the options as parameters.
func (c *Client[T, L]) to(r *rest.Request, options runtime.Object) *rest.Request {
	return r.NamespaceIfScoped(c.namespace, c.namespace != "").Resource(c.resource).VersionedParams(options,
		c.group.params)
}

// read sends a request whose answer is an object.
func (c *Client[T, L]) read(ctx context.Context, r *rest.Request) (T, error) {
	out := c.newObject()
	err := r.Do(ctx).Into(out)
	return out, err
}

// Get returns the object with the name.
func (c *Client[T, L]) Get(ctx context.Context, name string, o metav1.GetOptions) (T, error) {
	return c.read(ctx, c.to(c.group.server.Get(), &o).Name(name))
}

// List returns the objects that the options select.
func (c *Client[T, L]) List(ctx context.Context, o metav1.ListOptions) (L, error) {
	out := c.newList()
	err := c.to(c.group.server.Get(), &o).Timeout(timeout(o)).Do(ctx).Into(out)
	return out, err
}

// Watch returns a watch of the objects that the options select. It lasts until ctx ends, the caller stops it, or the
// server ends it.
func (c *Client[T, L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.to(c.group.server.Get(), &o).Timeout(timeout(o)).Watch(ctx)
}

// timeout returns the options' timeout, which bounds the request on the client's side, too; 0 is no timeout.
func timeout(o metav1.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*o.TimeoutSeconds) * time.Second
}

// Create writes a new object and returns it as the server stored it.
func (c *Client[T, L]) Create(ctx context.Context, in T, o metav1.CreateOptions) (T, error) {
	return c.read(ctx, c.to(c.group.server.Post(), &o).Body(in))
}

// Update replaces an object, except for its status if that is a subresource.
func (c *Client[T, L]) Update(ctx context.Context, in T, o metav1.UpdateOptions) (T, error) {
	return c.read(ctx, c.to(c.group.server.Put(), &o).Name(in.GetName()).Body(in))
}

// UpdateStatus replaces the status of an object.
func (c *Client[T, L]) UpdateStatus(ctx context.Context, in T, o metav1.UpdateOptions) (T, error) {
	return c.read(ctx, c.to(c.group.server.Put(), &o).Name(in.GetName()).SubResource("status").Body(in))
}

// Patch changes an object; data is a patch of type t.
func (c *Client[T, L]) Patch(ctx context.Context, name string, t types.PatchType, data []byte,
	o metav1.PatchOptions) (T, error) {
	return c.read(ctx, c.to(c.group.server.Patch(t), &o).Name(name).Body(data))
}

// Delete deletes the object with the name. The options are the body of the request.
func (c *Client[T, L]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return c.group.server.Delete().NamespaceIfScoped(c.namespace, c.namespace != "").
		Resource(c.resource).Name(name).Body(&o).Do(ctx).Error()
}
