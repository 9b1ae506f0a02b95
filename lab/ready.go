package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/lab/machines"
)

// waiting has the nodes that are not ready yet, by name, each with what it lacks.
type waiting map[string]string

func (w waiting) String() string {
	var out []string
	for name, what := range w {
		out = append(out, name+" ("+what+")")
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// awaitNodes returns when every node is ready with all its devices and, if agents run, its layout is published. It
// fails at once if a process of nodes ends by itself.
func (c *Cluster) awaitNodes(ctx context.Context, described map[string]machines.Machine, noAgents bool,
	say func(string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.Done():
			cancel(c.Err())
		case <-ctx.Done():
		}
	}()
	missing := waiting{}
	for _, n := range c.Nodes {
		missing[n.Name] = "not registered"
	}
	err := c.awaitReady(ctx, described, missing, say)
	if err == nil && !noAgents {
		for _, n := range c.Nodes {
			missing[n.Name] = "no layout"
		}
		err = c.awaitLayouts(ctx, missing)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("wait for nodes %s: %w", missing, errors.Join(err, context.Cause(ctx)))
}

// awaitReady waits until every node in missing is ready with all its devices. It deletes from missing the nodes that
// are, and updates what the others lack.
func (c *Cluster) awaitReady(ctx context.Context, described map[string]machines.Machine, missing waiting,
	say func(string)) error {
	k, err := kubernetes.NewForConfig(c.plane.Admin)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	nodes := k.CoreV1().Nodes()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return nodes.List(ctx, o)
		},
		WatchFuncWithContext: nodes.Watch,
	}
	_, err = watchtools.UntilWithSync(ctx, lw, &v1.Node{}, nil, func(e watch.Event) (bool, error) {
		node, ok := e.Object.(*v1.Node)
		if !ok || missing[node.Name] == "" {
			return len(missing) == 0, nil
		}
		if missing[node.Name] = lacks(node, described[node.Name]); missing[node.Name] == "" {
			delete(missing, node.Name)
			say(fmt.Sprintf("node %s ready, %d of %d", node.Name, len(described)-len(missing), len(described)))
		}
		return len(missing) == 0, nil
	})
	return err
}

// lacks returns what a node lacks to be ready with the devices of its machine, or "" if nothing.
func lacks(n *v1.Node, m machines.Machine) string {
	if !slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	}) {
		return "not ready"
	}
	for _, r := range m.Topo.Resources() {
		have := n.Status.Capacity[v1.ResourceName(r.Name)]
		if have.Value() != int64(len(r.Devices)) {
			return fmt.Sprintf("%d of %d %s", have.Value(), len(r.Devices), r.Name)
		}
	}
	return ""
}

// awaitLayouts waits until every node in missing has a layout, and deletes from missing the nodes that have one.
func (c *Cluster) awaitLayouts(ctx context.Context, missing waiting) error {
	layouts, err := client.New(c.plane.Admin)
	if err != nil {
		return err
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return layouts.List(ctx, o)
		},
		WatchFuncWithContext: layouts.Watch,
	}
	_, err = watchtools.UntilWithSync(ctx, lw, &v1alpha1.NodeLayout{}, nil, func(e watch.Event) (bool, error) {
		if l, ok := e.Object.(*v1alpha1.NodeLayout); ok {
			delete(missing, l.Name)
		}
		return len(missing) == 0, nil
	})
	return err
}
