// Package client reads and writes the objects of Tenon at an API server: NodeLayouts with their LayoutBases, and
// NodeAffinities.
//
// Invariant: it uses JSON, the only form of custom resources, whatever form the configuration sets, and never changes
// the configuration. It has no retries, no caches and no defaults. Get and List of a [Client] return complete layouts:
// a layout that continues a base is returned with the data of the base.
package client

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// FieldManager is the name under which an agent owns the fields of the objects that it applies, such as its layout.
const FieldManager = "tenon-agent"

// Layouts reads and writes NodeLayouts as they are stored.
type Layouts = objects.Client[*v1alpha1.NodeLayout, *v1alpha1.NodeLayoutList]

// Bases reads and writes LayoutBases.
type Bases = objects.Client[*v1alpha1.LayoutBase, *v1alpha1.LayoutBaseList]

// Client has the methods of objects.Client for NodeLayouts; Get and List return complete ones.
type Client struct {
	*Layouts
	Bases *Bases
}

// New returns a client of the server in cfg.
func New(cfg *rest.Config) (*Client, error) {
	c := rest.CopyConfig(cfg)
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	g, err := objects.NewGroup(c, v1alpha1.GroupVersion(), v1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Client{
		Layouts: objects.NewClient(g, v1alpha1.NodeLayoutResource().Resource,
			func() *v1alpha1.NodeLayout { return &v1alpha1.NodeLayout{} },
			func() *v1alpha1.NodeLayoutList { return &v1alpha1.NodeLayoutList{} }),
		Bases: objects.NewClient(g, v1alpha1.LayoutBaseResource().Resource,
			func() *v1alpha1.LayoutBase { return &v1alpha1.LayoutBase{} },
			func() *v1alpha1.LayoutBaseList { return &v1alpha1.LayoutBaseList{} }),
	}, nil
}

// Get returns the complete layout of a node. It reads the base after the layout, so that the two belong together. A
// layout whose base cannot be read is returned with the reason in Malformed.
func (c *Client) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1alpha1.NodeLayout, error) {
	l, err := c.Layouts.Get(ctx, name, o)
	if err != nil || l.Base == 0 {
		return l, err
	}
	b, err := c.Bases.Get(ctx, name, metav1.GetOptions{})
	if err != nil && !unreadable(err) {
		return nil, fmt.Errorf("get base of layout %s: %w", name, err)
	}
	if err != nil {
		b = nil
	}
	complete(l, b, err)
	return l, nil
}

// List returns complete layouts; see Get. It reads the bases of all nodes even where the options ask for a page.
func (c *Client) List(ctx context.Context, o metav1.ListOptions) (*v1alpha1.NodeLayoutList, error) {
	layouts, err := c.Layouts.List(ctx, o)
	if err != nil {
		return nil, err
	}
	var bases *v1alpha1.LayoutBaseList
	for i := range layouts.Items {
		if layouts.Items[i].Base != 0 {
			bases, err = c.Bases.List(ctx, metav1.ListOptions{LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector})
			break
		}
	}
	if err != nil && !unreadable(err) {
		return nil, fmt.Errorf("list bases of layouts: %w", err)
	}
	if err != nil {
		bases = nil
	}
	completeAll(layouts.Items, bases, err)
	return layouts, nil
}

// unreadable reports whether an error means that a base does not exist, or that the identity may not read it.
func unreadable(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// completeAll replaces layouts by their complete forms. If bases could not be read, bases is nil and why is the
// reason. A layout without its base has the reason in Malformed afterwards.
func completeAll(layouts []v1alpha1.NodeLayout, bases *v1alpha1.LayoutBaseList, why error) {
	byName := map[string]*v1alpha1.LayoutBase{}
	if bases != nil {
		for i := range bases.Items {
			byName[bases.Items[i].Name] = &bases.Items[i]
		}
	}
	for i := range layouts {
		complete(&layouts[i], byName[layouts[i].Name], why)
	}
}

// complete replaces a layout by its complete form with the base b, or sets Malformed if b is not its base. why is the
// reason why bases could not be read, or nil.
func complete(l *v1alpha1.NodeLayout, b *v1alpha1.LayoutBase, why error) {
	whole, err := l.On(b)
	switch {
	case err == nil:
		*l = *whole
	case why != nil:
		l.Malformed = fmt.Sprintf("the LayoutBase that it continues cannot be read: %.200s", why)
	default:
		l.Malformed = fmt.Sprintf("the LayoutBase with sequence %d that it continues is missing", l.Base)
	}
}

// UpdateStatus replaces the status of a layout that Get or List has returned. It reads the layout as it is stored,
// and sends this form with the new status: if the request lacked stored fields, the API server would end the agent's
// ownership of them, although it ignores their values.
func (c *Client) UpdateStatus(ctx context.Context, l *v1alpha1.NodeLayout, o metav1.UpdateOptions) (
	*v1alpha1.NodeLayout, error) {
	stored, err := c.Layouts.Get(ctx, l.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get layout %s as it is stored: %w", l.Name, err)
	}
	stored.Status, stored.ResourceVersion = l.Status, l.ResourceVersion
	return c.Layouts.UpdateStatus(ctx, stored, o)
}

// Apply writes all of the layout except its status by server-side apply, as FieldManager, and returns the object that
// the server stored. It takes the fields from other managers, because an agent is the only writer of its layout. It
// creates a missing layout.
func (c *Client) Apply(ctx context.Context, l *v1alpha1.NodeLayout) (*v1alpha1.NodeLayout, error) {
	body, err := Body(l)
	if err != nil {
		return nil, err
	}
	out, err := apply(ctx, c.Layouts, l.Name, body)
	if err != nil {
		return nil, fmt.Errorf("apply layout %s: %w", l.Name, err)
	}
	return out, nil
}

// ApplyBase writes a base as Apply writes a layout.
func (c *Client) ApplyBase(ctx context.Context, b *v1alpha1.LayoutBase) (*v1alpha1.LayoutBase, error) {
	body, err := BaseBody(b)
	if err != nil {
		return nil, err
	}
	out, err := apply(ctx, c.Bases, b.Name, body)
	if err != nil {
		return nil, fmt.Errorf("apply base of layout %s: %w", b.Name, err)
	}
	return out, nil
}

// Body returns what Apply sends. It contains empty lists, too, because a field that is missing would keep what
// another writer has put there.
func Body(l *v1alpha1.NodeLayout) (json.RawMessage, error) {
	body := *l
	body.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.Kind}
	body.Status = v1alpha1.NodeLayoutStatus{}
	unset(&body.ObjectMeta)
	empty := map[string]string{"holdings": "[]", "memoryGroups": "[]", "ended": "[]"}
	if l.Base == 0 {
		empty["base"], empty["inexact"] = "0", "[]"
	}
	return explicit(&body, empty)
}

// BaseBody returns what ApplyBase sends.
func BaseBody(b *v1alpha1.LayoutBase) (json.RawMessage, error) {
	body := *b
	body.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.BaseKind}
	unset(&body.ObjectMeta)
	return explicit(&body, map[string]string{"holdings": "[]", "memoryGroups": "[]", "inexact": "[]"})
}

// unset removes the metadata that only the API server sets, so that a request to apply does not contain it.
func unset(m *metav1.ObjectMeta) { m.ManagedFields, m.ResourceVersion, m.UID = nil, "", "" }

// explicit returns an object as JSON. empty has JSON values by the names of fields; explicit adds those that the
// object lacks.
func explicit(object any, empty map[string]string) (json.RawMessage, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	for name, value := range empty {
		if _, has := fields[name]; !has {
			fields[name] = json.RawMessage(value)
		}
	}
	return json.Marshal(fields)
}

func apply[T objects.Object, L runtime.Object](ctx context.Context, c *objects.Client[T, L], name string,
	body []byte) (T, error) {
	force := true
	return c.Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: FieldManager, Force: &force})
}
