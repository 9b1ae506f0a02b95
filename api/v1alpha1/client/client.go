// Package client reads and writes NodeLayout and NodeAffinity objects at an API server.
//
// Invariant: it uses JSON, the only form of custom resources, whatever form the configuration sets, and never changes
// the configuration. It has no retries, no caches and no defaults.
package client

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// FieldManager is the name under which an agent owns the fields of the objects that it applies, such as its layout.
const FieldManager = "tenon-agent"

// Client has the methods of objects.Client, and Apply.
type Client struct {
	*objects.Client[*v1alpha1.NodeLayout, *v1alpha1.NodeLayoutList]
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
	return &Client{objects.NewClient(g, v1alpha1.NodeLayoutResource().Resource,
		func() *v1alpha1.NodeLayout { return &v1alpha1.NodeLayout{} },
		func() *v1alpha1.NodeLayoutList { return &v1alpha1.NodeLayoutList{} },
	)}, nil
}

// Apply writes all of the layout except its status by server-side apply, as FieldManager, and returns the object that
// the server stored. It takes the fields from other managers, because an agent is the only writer of its layout. It
// creates a missing layout.
func (c *Client) Apply(ctx context.Context, l *v1alpha1.NodeLayout) (*v1alpha1.NodeLayout, error) {
	body := *l
	body.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.Kind}
	body.ManagedFields = nil
	body.ResourceVersion = ""
	body.UID = ""
	body.Status = v1alpha1.NodeLayoutStatus{}
	data, err := json.Marshal(&body)
	if err != nil {
		return nil, fmt.Errorf("encode layout %s: %w", l.Name, err)
	}
	force := true
	out, err := c.Patch(ctx, l.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: FieldManager,
		Force: &force})
	if err != nil {
		return nil, fmt.Errorf("apply layout %s: %w", l.Name, err)
	}
	return out, nil
}
