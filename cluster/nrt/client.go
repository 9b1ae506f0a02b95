package nrt

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// Resource is the plural name of the objects, as in the path of a request.
const Resource = "noderesourcetopologies"

// Client has the methods of objects.Client, and Apply.
type Client struct {
	*objects.Client[*v1alpha2.NodeResourceTopology, *v1alpha2.NodeResourceTopologyList]
}

// NewClient returns a client of the server that cfg names.
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

// List returns all objects that the server has, in whichever version it serves them and decoded as [Typed]
// does; none where it does not know the kind.
func List(ctx context.Context, cfg *rest.Config) ([]*v1alpha2.NodeResourceTopology, error) {
	all, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client for NodeResourceTopologies: %w", err)
	}
	for _, r := range Resources() {
		list, err := all.Resource(r).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list NodeResourceTopologies: %w", err)
		}
		var out []*v1alpha2.NodeResourceTopology
		for i := range list.Items {
			o, err := Typed(&list.Items[i])
			if err != nil {
				return nil, err
			}
			if typed, ok := o.(*v1alpha2.NodeResourceTopology); ok {
				out = append(out, typed)
			}
		}
		return out, nil
	}
	return nil, nil
}

// Apply writes the object by server-side apply, under the name that the agent also has on its layout,
// takes the fields from other managers, and returns what the server made of it. The object is created where
// it is missing. A server that does not know the kind answers NotFound.
func (c *Client) Apply(ctx context.Context, o *v1alpha2.NodeResourceTopology) (*v1alpha2.NodeResourceTopology, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode NodeResourceTopology %s: %w", o.Name, err)
	}
	force := true
	out, err := c.Patch(ctx, o.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: client.FieldManager, Force: &force})
	if err != nil {
		return nil, fmt.Errorf("apply NodeResourceTopology %s: %w", o.Name, err)
	}
	return out, nil
}
