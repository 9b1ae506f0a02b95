package remote

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ask binds a copy of a waiting pod to one node after the other, and returns which kubelet admits it. "" means that
// none does. The waiting pod itself holds nothing, so it could have run where its copy runs.
func (p *played) ask(ctx context.Context, pod *v1.Pod) (string, error) {
	for _, node := range p.nodes {
		admitted, err := p.probe(ctx, pod, node)
		if err != nil {
			return "", fmt.Errorf("ask node %s about pod %s: %w", node, pod.Name, err)
		}
		if admitted {
			return "the kubelet of " + node + " admits a copy of it", nil
		}
	}
	return "", nil
}

// probe reports whether the kubelet of a node admits a copy of a pod. The copy is gone when it returns.
func (c *cluster) probe(ctx context.Context, p *v1.Pod, node string) (admitted bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restTimeout, errors.New("the kubelet does not decide"))
	defer cancel()
	c.probes++
	copied := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("probe-", c.probes)}, Spec: spec()}
	copied.Spec.NodeName = node
	for _, one := range p.Spec.Containers {
		copied.Spec.Containers = append(copied.Spec.Containers, container(one.Name, one.Image, one.Resources.Limits))
	}
	if err := c.create(ctx, copied, node); err != nil {
		return false, err
	}
	named := func(pods []*v1.Pod) *v1.Pod {
		for _, q := range pods {
			if q.Name == copied.Name {
				return q
			}
		}
		return nil
	}
	_, err = c.pods.Until(ctx, func(pods []*v1.Pod) bool {
		q := named(pods)
		if q == nil {
			return false
		}
		// A kubelet writes the statuses of containers after it has admitted their pod.
		admitted = q.Status.Phase == v1.PodRunning || len(q.Status.ContainerStatuses) > 0
		return admitted || q.Status.Phase == v1.PodFailed
	})
	if err != nil {
		return false, err
	}
	if err := c.client.CoreV1().Pods(c.Namespace).Delete(ctx, copied.Name, metav1.DeleteOptions{}); err != nil {
		return false, fmt.Errorf("delete pod %s: %w", copied.Name, err)
	}
	_, err = c.pods.Until(ctx, func(pods []*v1.Pod) bool { return named(pods) == nil })
	return admitted, err
}
