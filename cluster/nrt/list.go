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
// NodeResourceTopology is not defined there.
func List(ctx context.Context, cfg *rest.Config) (out []*v1alpha2.NodeResourceTopology, err error) {
	err = Each(ctx, cfg, func(o *v1alpha2.NodeResourceTopology) { out = append(out, o) })
	return out, err
}

// Each calls do with each object that List returns, in the same order.
func Each(ctx context.Context, cfg *rest.Config, do func(*v1alpha2.NodeResourceTopology)) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client for NodeResourceTopologies: %w", err)
	}
	return EachOf(ctx, client, do)
}

// EachOf is Each with a client in place of a configuration.
func EachOf(ctx context.Context, client dynamic.Interface, do func(*v1alpha2.NodeResourceTopology)) error {
	for _, r := range Resources() {
		err := pages(ctx, client.Resource(r), do)
		if apierrors.IsNotFound(err) {
			continue
		}
		return err
	}
	return nil
}

// Get returns the object of one node, in the version that the API server serves, decoded as by [Typed]. It returns nil
// without an error if there is none.
func Get(ctx context.Context, client dynamic.Interface, node string) (*v1alpha2.NodeResourceTopology, error) {
	for _, r := range Resources() {
		in, err := client.Resource(r).Get(ctx, node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get NodeResourceTopology %s: %w", node, err)
		}
		o, err := Typed(in)
		if err != nil {
			return nil, err
		}
		typed, _ := o.(*v1alpha2.NodeResourceTopology)
		return typed, nil
	}
	return nil, nil
}

// pageSize is how many objects one request lists. It bounds memory, because as JSON the objects are several times as
// large as decoded.
const pageSize = 250

// pages calls do with each object, page by page. NotFound means that the resource is not served.
func pages(ctx context.Context, resource dynamic.ResourceInterface, do func(*v1alpha2.NodeResourceTopology)) error {
	next := ""
	for more := true; more; more = next != "" {
		list, err := resource.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if err != nil {
			return fmt.Errorf("list NodeResourceTopologies: %w", err)
		}
		for i := range list.Items {
			o, err := Typed(&list.Items[i])
			if err != nil {
				return err
			}
			if typed, ok := o.(*v1alpha2.NodeResourceTopology); ok {
				do(typed)
			}
		}
		next = list.GetContinue()
	}
	return nil
}
