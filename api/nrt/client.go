package nrt

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// Client has the methods of objects.Client, and Apply.
type Client struct {
	*objects.Client[*v1alpha2.NodeResourceTopology, *v1alpha2.NodeResourceTopologyList]
}

// NewClient returns a client of the server in cfg.
func NewClient(cfg *rest.Config) (*Client, error) {
	c := rest.CopyConfig(cfg)
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	g, err := objects.NewGroup(c, v1alpha2.SchemeGroupVersion, v1alpha2.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Client{objects.NewClient(g, Resource,
		func() *v1alpha2.NodeResourceTopology { return &v1alpha2.NodeResourceTopology{} },
		func() *v1alpha2.NodeResourceTopologyList { return &v1alpha2.NodeResourceTopologyList{} },
	)}, nil
}

// Apply writes the object by server-side apply, with the field manager of the agent's layout (client.FieldManager).
// It also sets fields that other managers own. It creates a missing object, and returns the object that the server
// stored. If the server does not serve the kind, the error is NotFound.
func (c *Client) Apply(ctx context.Context, o *v1alpha2.NodeResourceTopology) (*v1alpha2.NodeResourceTopology, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode NodeResourceTopology %s: %w", o.Name, err)
	}
	force := true
	out, err := c.Patch(ctx, o.Name, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: client.FieldManager, Force: &force})
	if err != nil {
		return nil, fmt.Errorf("apply NodeResourceTopology %s: %w", o.Name, err)
	}
	return out, nil
}
