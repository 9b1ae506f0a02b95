package follow

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/nrt"
)

// servesLayouts returns an error if the API server does not serve NodeLayouts and LayoutBases. Without that check,
// their informers would wait forever.
func servesLayouts(config *rest.Config) error {
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make discovery client: %w", err)
	}
	gv := v1alpha1.GroupVersion().String()
	list, err := server.ServerResourcesForGroupVersion(gv)
	if err != nil {
		return fmt.Errorf("find resources of %s (is the NodeLayout definition installed?): %w", gv, err)
	}
	for _, r := range []schema.GroupVersionResource{v1alpha1.NodeLayoutResource(), v1alpha1.LayoutBaseResource()} {
		if !slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == r.Resource }) {
			return fmt.Errorf("API server has no %s.%s: install its definition (deploy/crd)", r.Resource, gv)
		}
	}
	return nil
}

// findTopologies returns the resource of NodeResourceTopologies. If they cannot be read, it returns nil and the
// reason.
func findTopologies(ctx context.Context, cfg *rest.Config) (*schema.GroupVersionResource, string, error) {
	return served(ctx, cfg, nrt.Resources()...)
}

// findNumatopologies returns the resource of Numatopologies. If they cannot be read, it returns nil and the reason.
func findNumatopologies(ctx context.Context, cfg *rest.Config) (*schema.GroupVersionResource, string, error) {
	return served(ctx, cfg, nrt.Numatopologies())
}

// served returns the first of the given resources that the API server serves, if this scheduler may list it.
// Otherwise it returns nil and the reason. The error means that the API server could not be asked.
func served(ctx context.Context, cfg *rest.Config, resources ...schema.GroupVersionResource) (
	*schema.GroupVersionResource, string, error) {
	server, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("make discovery client: %w", err)
	}
	for _, r := range resources {
		list, err := server.ServerResourcesForGroupVersion(r.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("find resources of %s: %w", r.GroupVersion(), err)
		}
		for i := range list.APIResources {
			if list.APIResources[i].Name == r.Resource {
				return readable(ctx, cfg, r)
			}
		}
	}
	return nil, "the API server does not serve them", nil
}

// readable returns the resource if this scheduler may list it, and otherwise nil and the API server's refusal.
func readable(
	ctx context.Context,
	cfg *rest.Config,
	r schema.GroupVersionResource,
) (*schema.GroupVersionResource, string, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("make client for %s: %w", r.GroupResource(), err)
	}
	_, err = client.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) {
		return nil, err.Error(), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("list %s: %w", r.GroupResource(), err)
	}
	return &r, "", nil
}
