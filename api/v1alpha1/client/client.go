// Package client reads and writes NodeLayout objects at an API server.
//
// Invariant: it speaks JSON, the only form that custom resources have, whatever the given
// configuration says, and it never changes that configuration. It refuses to decide anything: no
// retries, no caches, no defaults.
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

// FieldManager is the name under which an agent owns the fields of its layout.
const FieldManager = "tenon-agent"

// Client has the methods of objects.Client, and Apply.
type Client struct {
	*objects.Client[*v1alpha1.NodeLayout, *v1alpha1.NodeLayoutList]
}

// New returns a client of the server that cfg names.
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

// Apply writes everything of the layout but its status by server-side apply, as FieldManager, and
// returns what the server made of it. It takes the fields from other managers: an agent is the only
// writer of its layout. The layout is created where it is missing.
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
