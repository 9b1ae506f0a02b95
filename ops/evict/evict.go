// Package evict asks the API server for evictions, which respect disruption budgets.
//
// Invariant: a pod leaves by the Eviction API only, and only the pod with the given UID. The package does not decide
// who leaves, and does not wait.
package evict

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// pods is the resource of pods. A dynamic client asks for evictions, because the typed client of their group is large.
var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// Pod asks for the eviction of a pod, unless it is being deleted already. While a disruption budget refuses it, the
// error is one of too many requests.
func Pod(ctx context.Context, c dynamic.Interface, p *v1.Pod) error {
	if p.DeletionTimestamp != nil {
		return nil
	}
	return ask(ctx, c, p, nil)
}

// Try asks for the eviction of a pod as a dry run, which evicts nothing.
func Try(ctx context.Context, c dynamic.Interface, p *v1.Pod) error {
	return ask(ctx, c, p, []string{metav1.DryRunAll})
}

func ask(ctx context.Context, c dynamic.Interface, p *v1.Pod, dry []string) error {
	options := map[string]any{"preconditions": map[string]any{"uid": string(p.UID)}}
	if len(dry) > 0 {
		options["dryRun"] = []any{metav1.DryRunAll}
	}
	eviction := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace}, "deleteOptions": options}}
	_, err := c.Resource(pods).Namespace(p.Namespace).Create(ctx, eviction, metav1.CreateOptions{DryRun: dry}, "eviction")
	return err
}
