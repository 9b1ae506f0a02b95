package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A controller's pod waits while a request of its controller has no room, with that as its reason. It is tried again at
// once when the request is gone, and when its time is over.
func TestPodsAreHeldBackForARequest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, _ := newSets(ctx, t)
	s.world.create(ctx, t, pod("x", "", 2)) // beside it, no four pods of 14 CPUs fit
	s.run(ctx, t, "x")
	p := pod("m", "", 2)
	p.Labels, p.Spec.RestartPolicy = map[string]string{"set": "m"}, v1.RestartPolicyAlways
	set, err := s.client.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: p.Labels}, Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.world.template(ctx, t, "large", pod("large", "", 14))
	for _, x := range []struct{ name, seconds string }{{"deleted", "600"}, {"expires", "15"}} {
		s.request(ctx, t, &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: x.name, Namespace: "default"},
			Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: []provisioning.PodSet{{Count: 4,
				PodTemplateRef: provisioning.Reference{Name: "large"}}}, Parameters: map[string]string{
				provisioning.PodsOf: string(set.UID), provisioning.HoldSeconds: x.seconds}}})
		s.until(ctx, t, x.name, provisioning.Provisioned, metav1.ConditionFalse, provisioning.HeldBack)
		s.scale(ctx, t, "1")
		message := ""
		if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
			for _, p := range pods {
				fate, why := workload.FateOf(p)
				if message = why; p.Labels["set"] == "m" && p.DeletionTimestamp == nil && fate == workload.Pending {
					return true
				}
			}
			return false
		}); err != nil {
			t.Fatalf("%s: the pod does not wait: %v", x.name, err)
		}
		if want := "held back until ProvisioningRequest default/" + x.name + " has room"; !strings.Contains(message, want) {
			t.Errorf("the pod waits with %q, want %q", message, want)
		}
		if x.name == "deleted" {
			if err := s.requests.In("default").Delete(ctx, x.name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
			for _, p := range pods {
				if p.Labels["set"] == "m" && p.DeletionTimestamp == nil && p.Status.Phase == v1.PodRunning {
					return true
				}
			}
			return false
		}); err != nil {
			t.Fatalf("%s: the pod does not run: %v", x.name, err)
		}
		s.scale(ctx, t, "0")
		if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool { return len(pods) == 1 }); err != nil {
			t.Fatal(err)
		}
	}
}

// A request that has room gets none while a pod waits that has its turn first, whether or not that pod is nominated to
// a node.
func TestARequestWaitsForAPodThatHasItsTurnFirst(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, _ := newSets(ctx, t)
	goal := pod("goal", "", 2)
	goal.Spec.NodeSelector = map[string]string{v1.LabelHostname: "none"}
	s.world.create(ctx, t, goal)
	if fate := s.tried(ctx, t, "goal"); fate != workload.Pending {
		t.Fatalf("the pod that is to wait is %s", fate)
	}
	waits, err := s.client.CoreV1().Pods("default").Get(ctx, "goal", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.world.template(ctx, t, "small", pod("small", "", 2))
	r := &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: "default"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: []provisioning.PodSet{{Count: 1,
			PodTemplateRef: provisioning.Reference{Name: "small"}}}, Parameters: map[string]string{
			provisioning.PodsOf: "set", provisioning.HoldSeconds: "600"}}}
	first := []provisioning.First{{UID: waits.UID,
		NamespacedName: types.NamespacedName{Namespace: "default", Name: "goal"}}}
	for range provisioning.MaxFirst - 1 { // as many as are possible, with the longest names: the API server takes them
		first = append(first, provisioning.First{UID: "gone", NamespacedName: types.NamespacedName{Namespace: "default",
			Name: strings.Repeat("n", 255-len("default//gone"))}})
	}
	if err := provisioning.SetFirst(r.Spec.Parameters, first); err != nil {
		t.Fatal(err)
	}
	s.request(ctx, t, r)
	s.until(ctx, t, "small", provisioning.Provisioned, metav1.ConditionFalse,
		"not now: pod default/goal has its turn first; "+provisioning.HeldBack)
	s.world.end(ctx, t, "goal")
	s.until(ctx, t, "small", provisioning.Provisioned, metav1.ConditionTrue, "")
}

// scale changes the number of pods of the ReplicaSet m.
func (s *sets) scale(ctx context.Context, t *testing.T, replicas string) {
	t.Helper()
	if _, err := s.client.AppsV1().ReplicaSets("default").Patch(ctx, "m", types.MergePatchType,
		[]byte(`{"spec":{"replicas":`+replicas+`}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
