package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
)

// This file reads the names and selectors in arguments and flags. A name that is not known is an error: an empty answer
// about it would look like a good one.

// podTypes and nodeTypes are kubectl's names of the types.
var (
	podTypes  = []string{"pod", "pods", "po"}
	nodeTypes = []string{"node", "nodes", "no"}
)

// nodeName returns the name in a reference to a node: NAME, or node/NAME as kubectl writes it.
func nodeName(ref string) string {
	if kind, name, ok := strings.Cut(ref, "/"); ok && slices.Contains(nodeTypes, kind) {
		return name
	}
	return ref
}

func nodeNamesIn(refs []string) (out []string) {
	for _, r := range refs {
		out = append(out, nodeName(r))
	}
	return out
}

// unknownNode returns the error about a node that is not among the known ones.
func unknownNode(name string, known []string) error {
	return fmt.Errorf("node %q is not known%s", name, printable.Instead(name, known))
}

// unknownPod returns the error about a pod that a namespace does not have. known are pods as "namespace/name". A pod of
// the same name in another namespace is named first.
func unknownPod(namespace, name string, known []string) error {
	return fmt.Errorf("there is no pod %s/%s%s", namespace, name, printable.InsteadOfPod(namespace, name, known))
}

// podsKnown returns the pods of all namespaces as "namespace/name"; none if they cannot be read.
func podsKnown(ctx context.Context, c Cluster) (out []string) {
	pods, err := c.Pods(ctx, "")
	if err != nil {
		return nil
	}
	for _, p := range pods {
		out = append(out, p.ID.Namespace+"/"+p.ID.Name)
	}
	return out
}

// knownNamespaces returns an error if flags that the user has given name a namespace that the cluster does not have.
func (a *app) knownNamespaces(c *cobra.Command, names map[string][]string) error {
	for _, flag := range slices.Sorted(maps.Keys(names)) {
		if !c.Flags().Changed(flag) {
			continue
		}
		cluster, _, err := a.connect()
		if err != nil {
			return err
		}
		for _, name := range names[flag] {
			if err := knownNamespace(c.Context(), cluster, name); name != "" && err != nil {
				return fmt.Errorf("--%s: %w", flag, err)
			}
		}
	}
	return nil
}

// knownNamespace returns an error if a cluster that lists its namespaces has none of this name. A user who may not
// list namespaces gets no error.
func knownNamespace(ctx context.Context, c Cluster, namespace string) error {
	lister, ok := c.(namer)
	if !ok {
		return nil
	}
	names, err := lister.NamespaceNames(ctx)
	if err != nil || slices.Contains(names, namespace) {
		return nil //nolint:nilerr // without the right to list namespaces, it is open whether there is this one
	}
	return fmt.Errorf("there is no namespace %q%s", namespace, printable.Instead(namespace, names))
}

// nodesKnown returns the names of the nodes, and of those that cannot be judged.
func nodesKnown(nodes []*state.Node, problems []document.Problem) (out []string) {
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	for _, p := range problems {
		out = append(out, p.Node)
	}
	return out
}

// nodeSelector is a [Cluster] or a [Stage] that knows the labels of its nodes.
type nodeSelector interface {
	// NodesWith returns the names of the nodes that a label selector selects, in ascending order. None is an error.
	NodesWith(ctx context.Context, selector string) ([]string, error)
}

// podSelector is a [Cluster] that knows the labels of pods.
type podSelector interface {
	// PodsWith returns the UIDs of the pods of a namespace that a label selector selects, in ascending order. None is an
	// error. namespace is "" for all namespaces.
	PodsWith(ctx context.Context, namespace, selector string) ([]string, error)
}

// selectedNodes returns the names of the nodes that --selector selects.
func selectedNodes(ctx context.Context, of any, selector string) ([]string, error) {
	known, ok := of.(nodeSelector)
	if !ok {
		return nil, errors.New("--selector: the labels of the nodes are not known here")
	}
	names, err := known.NodesWith(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	return names, nil
}

// selectedPods returns the UIDs of the pods of a namespace that --selector selects.
func selectedPods(ctx context.Context, of any, namespace, selector string) ([]string, error) {
	known, ok := of.(podSelector)
	if !ok {
		return nil, errors.New("--selector: the labels of the pods are not known here")
	}
	uids, err := known.PodsWith(ctx, namespace, selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	return uids, nil
}
