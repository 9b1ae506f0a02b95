package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

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

// NamespaceNames returns the names of the namespaces, but no more than the first maxOffered.
func (r *Reader) NamespaceNames(ctx context.Context) (out []string, err error) {
	namespaces, err := r.cluster.Namespaces.List(ctx, metav1.ListOptions{Limit: maxOffered})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces.Items {
		out = append(out, namespaces.Items[i].Name)
	}
	return out, nil
}

// WorkloadNames returns the names of the workloads of one kind in a namespace, in ascending order. It returns none for
// CronJobs and kinds of operators.
func (r *Reader) WorkloadNames(ctx context.Context, kind, namespace string) (out []string, err error) {
	resource, ok := workloads[kind]
	if !ok {
		return nil, nil
	}
	data, err := r.raw(ctx, resource, namespace, "", maxOffered)
	if err != nil {
		return nil, fmt.Errorf("list %s of namespace %s: %w", resource.Resource, namespace, err)
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode %s of namespace %s: %w", resource.Resource, namespace, err)
	}
	for _, x := range list.Items {
		out = append(out, x.Metadata.Name)
	}
	slices.Sort(out)
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
