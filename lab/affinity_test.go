package lab_test

import (
	"context"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab"
)

// affinities: an agent writes what it has measured on its own node alone. Only agents that pin containers get the
// right, by the chart.
func affinities(ctx context.Context, t *testing.T, c *lab.Cluster, agent *rest.Config) {
	admin := kubernetes.NewForConfigOrDie(c.RESTConfig())
	name := metav1.ObjectMeta{Name: "tenon-agent-affinity"}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.Group}, Resources: []string{"nodeaffinities"},
			Verbs: []string{"get", "create", "patch"}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: name,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: deploy.AgentNamespace, Name: deploy.Agent}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	own, err := client.NewAffinities(agent)
	if err != nil {
		t.Fatal(err)
	}
	numa := int64(1)
	a := &v1alpha1.NodeAffinity{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Measured: metav1.Now(), PeriodSeconds: 15,
		Summary: v1alpha1.AffinitySummary{Pods: 1, Placed: 1}, Pods: []v1alpha1.AffinityPod{{Namespace: "shop", Name: "db",
			UID: "1-2", Outcome: "moved", NUMA: &numa, BytesPerSecond: 5}},
		Traffic:  []v1alpha1.AffinityTraffic{{A: "shop/db", B: "shop/web", BytesPerSecond: 5}},
		LastMove: &v1alpha1.AffinityMove{Time: metav1.Now(), Pods: 1}}
	// The API server learns of a role by a watch.
	var last error
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = own.Apply(ctx, a)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("an agent's own object: %v", last)
	}
	got, err := own.Get(ctx, "own", metav1.GetOptions{})
	if err != nil || len(got.Pods) != 1 || got.Pods[0].NUMA == nil || *got.Pods[0].NUMA != 1 || len(got.Traffic) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	a.Name = "other"
	judged(t, "another node's object", own.Apply(ctx, a), "may not write for node other")
}
