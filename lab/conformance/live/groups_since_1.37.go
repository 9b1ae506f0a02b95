//go:build !upto1.36

package live

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podGroups are Kubernetes' PodGroups.
type podGroups struct{}

// Create implements Groups.
func (podGroups) Create(ctx context.Context, c Clients, name string, need int) error {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(need)}
	_, err := c.SchedulingV1beta1().PodGroups(g.Namespace).Create(ctx, g, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create PodGroup %s: %w", name, err)
	}
	return nil
}

// Join implements Groups.
func (podGroups) Join(p *v1.Pod, group string) {
	if group != "" {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
}
