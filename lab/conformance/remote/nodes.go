package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/lab/conformance/judge"
)

// choose chooses up to most nodes, in ascending order of name, and finds out which room they have.
func (c *cluster) choose(ctx context.Context, most int) error {
	all, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: c.Selector})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	slices.SortFunc(all.Items, func(a, b v1.Node) int { return strings.Compare(a.Name, b.Name) })
	var reasons []string
	for i := range all.Items {
		if len(c.nodes) == most {
			break
		}
		n := &all.Items[i]
		why := unusable(n, c.tolerations)
		if why == "" {
			why, err = c.add(ctx, n)
		}
		if err != nil {
			return err
		}
		if why != "" && len(reasons) < maxReasons {
			reasons = append(reasons, n.Name+" "+why)
		}
	}
	if len(c.nodes) == 0 {
		return fmt.Errorf("none of %d nodes can be used: %s", len(all.Items), strings.Join(reasons, "; "))
	}
	if c.amounts, err = c.room.amounts(); err != nil {
		return fmt.Errorf("nodes %s: %w", strings.Join(c.nodes, ", "), err)
	}
	c.Progress(fmt.Sprintf("on %s: %s", strings.Join(c.nodes, ", "), c.room))
	return nil
}

// maxReasons bounds how many nodes an error names.
const maxReasons = 5

// unusable returns why no pod with some tolerations can run on a node, or "".
func unusable(n *v1.Node, list []v1.Toleration) string {
	taint, tainted := judge.Untolerated(n.Spec.Taints, list)
	ready := slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
	switch {
	case n.Spec.Unschedulable:
		return "is cordoned"
	case tainted:
		return "has the taint " + taint.ToString()
	case !ready:
		return "is not ready"
	}
	return ""
}

// add adds a node, or returns why it cannot be used.
func (c *cluster) add(ctx context.Context, n *v1.Node) (why string, err error) {
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		return "", fmt.Errorf("list pods of node %s: %w", n.Name, err)
	}
	var requested resource.Quantity
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if exclusive(p) && (!c.Shared || c.NUMA != "") {
			return "runs pod " + p.Namespace + "/" + p.Name + ", which may have exclusive CPUs", nil
		}
		requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
		requested.Add(*requests.Cpu())
	}
	r, err := c.measure(ctx, n, requested)
	if err != nil {
		return "", err
	}
	if len(c.nodes) > 0 {
		if r, err = c.room.common(r); err != nil {
			return "", fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	c.nodes, c.room = append(c.nodes, n.Name), r
	return "", nil
}

// measure returns the room of a node.
func (c *cluster) measure(ctx context.Context, n *v1.Node, requested resource.Quantity) (room, error) {
	if c.NUMA != "" {
		numas, cpus, err := declare(c.NUMA)
		if err != nil {
			return room{}, fmt.Errorf("declared NUMA nodes: %w", err)
		}
		return declaredRoom(n, requested, numas, cpus)
	}
	client, err := nrt.NewClient(c.Config)
	if err != nil {
		return room{}, err
	}
	o, err := client.Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return room{}, errors.New("node " + n.Name + " has no NodeResourceTopology: install an exporter, or declare " +
			"its NUMA nodes, such as --numa 2x32 for two of 32 CPUs each")
	}
	if err != nil {
		return room{}, fmt.Errorf("get NodeResourceTopology %s: %w", n.Name, err)
	}
	return publishedRoom(n, requested, o)
}

// exclusive reports whether a pod may have CPUs of its own under a static CPU manager.
func exclusive(p *v1.Pod) bool {
	if qos.GetPodQOS(p) != v1.PodQOSGuaranteed {
		return false
	}
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c v1.Container) bool {
		cpus := c.Resources.Requests.Cpu()
		return !cpus.IsZero() && cpus.MilliValue()%1000 == 0
	})
}
