package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxOffered bounds the names that are read for shell completion.
const maxOffered = 500

// NodeNames returns the names of nodes, but no more than the first maxOffered.
func (r *Reader) NodeNames(ctx context.Context) (out []string, err error) {
	nodes, err := r.cluster.Nodes.List(ctx, metav1.ListOptions{Limit: maxOffered})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		out = append(out, nodes.Items[i].Name)
	}
	return out, nil
}

// PodNames returns the names of the pods of a namespace, but no more than the first maxOffered.
func (r *Reader) PodNames(ctx context.Context, namespace string) (out []string, err error) {
	options := metav1.ListOptions{FieldSelector: "metadata.namespace=" + namespace, Limit: maxOffered}
	pods, err := r.cluster.Pods.List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", namespace, err)
	}
	for i := range pods.Items {
		out = append(out, pods.Items[i].Name)
	}
	return out, nil
}
