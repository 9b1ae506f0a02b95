package nrt

import (
	"context"
	"fmt"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// List returns all objects of the API server, in the version that it serves, decoded as by [Typed]. It returns none if
// the API server does not serve the kind.
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
