package control

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// readPods is a role that lets every node read every pod. The Node authorizer lets a node read only the pods that are
// bound to it, and receives bindings through an informer. Without the role, a kubelet of a busy computer would read a
// new pod before the authorizer has the binding. The read would be refused, and the kubelet would report the pod's
// status ten seconds later.
const readPods = "lab:nodes-read-pods"

// grant creates the role readPods and binds it to the nodes.
func (p *Plane) grant(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(p.Admin)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	meta := metav1.ObjectMeta{Name: readPods}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}},
		metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // an earlier plane may have made it
		return fmt.Errorf("create cluster role %s: %w", readPods, err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: readPods},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}}},
		metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create cluster role binding %s: %w", readPods, err)
	}
	return nil
}
