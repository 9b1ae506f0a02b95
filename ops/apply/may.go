package apply

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/ops/evict"
)

// This file asks the API server beforehand whether it will accept the requests of a change. Otherwise missing rights
// would show only after the pods have been evicted.

var dryRun = []string{metav1.DryRunAll}

// trier is implemented by a [Node] that can check beforehand whether the API server would accept its requests.
type trier interface {
	Try(ctx context.Context, node string, c Configuration) error
}

// checkRights returns an error if the API server would refuse a request of the change or of its verification, and nil
// otherwise. pods are the pods that would be evicted. All its requests are reads or dry runs.
func (c *Cluster) checkRights(ctx context.Context, n document.KubeletPlanNode, pods []v1.Pod) error {
	removal := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, Annotation)
	if _, err := c.core.Nodes.Patch(ctx, n.Name, types.MergePatchType, removal,
		metav1.PatchOptions{DryRun: dryRun}); err != nil {
		return fmt.Errorf("nothing was changed, since you may not change node %s: %w", n.Name, err)
	}
	seen := map[string]bool{}
	for _, p := range pods { // eviction rights are per namespace
		if seen[p.Namespace] {
			continue
		}
		seen[p.Namespace] = true
		if err := evict.Try(ctx, c.dynamic, &p); apierrors.IsForbidden(err) {
			return fmt.Errorf("nothing was changed, since you may not evict pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	if _, err := c.configz(ctx, n.Name); apierrors.IsForbidden(err) {
		return fmt.Errorf("nothing was changed, since you may not ask the kubelet of node %s for its configuration, by "+
			"which a change is verified: %w", n.Name, err)
	}
	if t, ok := c.node.(trier); ok {
		return t.Try(ctx, n.Name, configurationOf(n))
	}
	return nil
}

// Try asks the API server, without changing anything, whether it would accept the pod that changes a node. It also
// asks for the rights to read the pod and its log, to patch it with orders, and to delete it.
func (p *Pods) Try(ctx context.Context, node string, c Configuration) error {
	if err := accept(node, c); err != nil {
		return err
	}
	_, err := p.pods().Create(ctx, p.pod(node, c), metav1.CreateOptions{DryRun: dryRun})
	if err != nil && !apierrors.IsAlreadyExists(err) { // the pod exists if a change was interrupted
		return fmt.Errorf("nothing was changed, since the privileged pod %s/%s would be refused (choose another "+
			"namespace?): %w", p.options.Namespace, podName(node), err)
	}
	return p.tryRights(ctx, node)
}

// tryRights returns an error if a right for later requests about the pod is missing. The pod need not exist: an API
// server checks rights before it looks for the pod.
func (p *Pods) tryRights(ctx context.Context, node string) error {
	for _, right := range []struct {
		verb string
		ask  func() error
	}{
		{"get pods", func() error { _, err := p.pods().Get(ctx, podName(node), metav1.GetOptions{}); return err }},
		{"get pods/log", func() error { _, err := p.log(ctx, node); return err }},
		{"patch pods", func() error {
			_, err := p.pods().Patch(ctx, podName(node), types.MergePatchType, []byte(`{}`),
				metav1.PatchOptions{DryRun: dryRun})
			return err
		}},
		{"delete pods", func() error {
			return p.raw.Delete().AbsPath("/api/v1/namespaces", p.options.Namespace, "pods", podName(node)).
				Param("dryRun", metav1.DryRunAll).Do(ctx).Error()
		}},
	} {
		if err := right.ask(); apierrors.IsForbidden(err) {
			return fmt.Errorf("nothing was changed, since you may not %s in namespace %s: %w", right.verb,
				p.options.Namespace, err)
		}
	}
	return nil
}
