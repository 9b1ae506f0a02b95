//go:build !upto1.36

package chaos

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// joinGang makes a pod one of a gang.
func joinGang(p *v1.Pod, gang string) {
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
}

// addGroup creates the PodGroup of a gang.
func (r *run) addGroup(ctx context.Context, name string, need int) error {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(need)}
	groups := r.client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault)
	return r.try(ctx, func() error {
		if _, err := groups.Create(ctx, g, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create PodGroup %s: %w", name, err)
		}
		return nil
	})
}

// dropGroup deletes a PodGroup, and its finalizers, as kube-controller-manager does when no pod is left.
func (r *run) dropGroup(ctx context.Context, name string) error {
	groups := r.client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault)
	return r.try(ctx, func() error {
		err := groups.Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil {
			_, err = groups.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
				metav1.PatchOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete PodGroup %s: %w", name, err)
		}
		return nil
	})
}
