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

// Affinities has the methods of objects.Client for NodeAffinity objects, and Apply.
type Affinities struct {
	*objects.Client[*v1alpha1.NodeAffinity, *v1alpha1.NodeAffinityList]
}

// NewAffinities returns a client of the server in cfg.
func NewAffinities(cfg *rest.Config) (*Affinities, error) {
	c := rest.CopyConfig(cfg)
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	g, err := objects.NewGroup(c, v1alpha1.GroupVersion(), v1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	return &Affinities{objects.NewClient(g, v1alpha1.NodeAffinityResource().Resource,
		func() *v1alpha1.NodeAffinity { return &v1alpha1.NodeAffinity{} },
		func() *v1alpha1.NodeAffinityList { return &v1alpha1.NodeAffinityList{} },
	)}, nil
}

// Apply writes the whole object by server-side apply, as FieldManager. It creates a missing one.
func (c *Affinities) Apply(ctx context.Context, a *v1alpha1.NodeAffinity) error {
	body := *a
	body.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.AffinityKind}
	body.ManagedFields, body.ResourceVersion, body.UID = nil, "", ""
	data, err := json.Marshal(&body)
	if err != nil {
		return fmt.Errorf("encode affinity %s: %w", a.Name, err)
	}
	force := true
	if _, err := c.Patch(ctx, a.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: FieldManager,
		Force: &force}); err != nil {
		return fmt.Errorf("apply affinity %s: %w", a.Name, err)
	}
	return nil
}
