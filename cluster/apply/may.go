package apply

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
)

// This file asks the API server beforehand whether it will accept what a change does: without that, rights that are
// missing would be found when the pods have been evicted.

var dryRun = []string{metav1.DryRunAll}

// trier is a [Node] that can say beforehand whether it may begin.
type trier interface {
	Try(ctx context.Context, node string, c Configuration) error
}

// may returns why a change of a node would be refused by the API server; pods are those that leave.
func (c *Cluster) may(ctx context.Context, n document.KubeletPlanNode, pods []v1.Pod) error {
	none := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, Annotation)
	if _, err := c.core.Nodes.Patch(ctx, n.Name, types.MergePatchType, none,
		metav1.PatchOptions{DryRun: dryRun}); err != nil {
		return fmt.Errorf("nothing was changed, since you may not change node %s: %w", n.Name, err)
	}
	seen := map[string]bool{}
	for _, p := range pods { // rights to evict are of namespaces
		if seen[p.Namespace] {
			continue
		}
		seen[p.Namespace] = true
		if err := c.tryEviction(ctx, &p); apierrors.IsForbidden(err) {
			return fmt.Errorf("nothing was changed, since you may not evict pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	if t, ok := c.node.(trier); ok {
		return t.Try(ctx, n.Name, configurationOf(n))
	}
	return nil
}

// tryEviction asks for an eviction that does not happen.
func (c *Cluster) tryEviction(ctx context.Context, p *v1.Pod) error {
	eviction := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata":      map[string]any{"name": p.Name, "namespace": p.Namespace},
		"deleteOptions": map[string]any{"dryRun": []any{metav1.DryRunAll}}}}
	_, err := c.all.Resource(podResource).Namespace(p.Namespace).Create(ctx, eviction,
		metav1.CreateOptions{DryRun: dryRun}, "eviction")
	return err
}

// Try asks the API server whether it would accept the pod that changes a node, and nothing more.
func (p *Pods) Try(ctx context.Context, node string, c Configuration) error {
	if err := accept(node, c); err != nil {
		return err
	}
	_, err := p.pods().Create(ctx, p.pod(node, c), metav1.CreateOptions{DryRun: dryRun})
	if err == nil || apierrors.IsAlreadyExists(err) { // of a change that was interrupted
		return nil
	}
	return fmt.Errorf("nothing was changed, since the privileged pod %s/%s would be refused (choose another "+
		"namespace?): %w", p.options.Namespace, podName(node), err)
}
