package commands

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/face/cli"
)

// affinity reads what agents have published about pods that share CPUs, in the cluster of a kubeconfig. node is the
// name of one node; "" reads all nodes. It returns an error if the agent of the named node has published nothing.
func affinity(ctx context.Context, k cli.Kubeconfig, node string) (document.Affinity, error) {
	r, err := reach(k)
	if err != nil {
		return document.Affinity{}, err
	}
	if node != "" {
		one, err := affinityOf(ctx, r.cfg, node)
		if err == nil && len(one.Nodes) == 0 {
			err = r.notMeasured(ctx, node)
		}
		return one, err
	}
	c, err := client.NewAffinities(r.cfg)
	if err != nil {
		return document.Affinity{}, err
	}
	all, err := c.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return document.AffinityOf(nil), nil // the definition is not installed
	}
	if err != nil {
		return document.Affinity{}, fmt.Errorf("list affinities of nodes: %w", err)
	}
	slices.SortFunc(all.Items, func(a, b v1alpha1.NodeAffinity) int { return cmp.Compare(a.Name, b.Name) })
	return document.AffinityOf(all.Items), nil
}

// notMeasured returns the error about a node whose agent has published nothing. If the user may list nodes, a name that
// no node has gets an error of its own.
func (r reached) notMeasured(ctx context.Context, node string) error {
	if reader, err := r.reader(); err == nil {
		names, err := reader.NodeNames(ctx)
		if err == nil && !slices.Contains(names, node) {
			return fmt.Errorf("node %q is not known%s", node, printable.Instead(node, names))
		}
	}
	return fmt.Errorf("the agent of node %q has measured no pods: see %showto/affinity.md", node, document.Docs)
}

// affinityOf reads what the agent of one node has published. The result has no nodes if the agent has measured no
// pods.
func affinityOf(ctx context.Context, cfg *rest.Config, node string) (document.Affinity, error) {
	c, err := client.NewAffinities(cfg)
	if err != nil {
		return document.Affinity{}, err
	}
	one, err := c.Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return document.AffinityOf(nil), nil
	}
	if err != nil {
		return document.Affinity{}, fmt.Errorf("read the affinity of node %q: %w", node, err)
	}
	return document.AffinityOf([]v1alpha1.NodeAffinity{*one}), nil
}
