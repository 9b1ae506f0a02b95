package queue_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// on pins a pod to a node.
func on(node string, p *v1.Pod) *v1.Pod {
	named := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name",
		Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.
		NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{named}}}}
	return p
}

// A pod with a claim waits for CPUs and a device of one NUMA node, which another pod with a claim has. The command
// defrag finds that this one can move, and defrag apply carries it out: both run, with devices near their CPUs.
func TestAPodWithAClaimMoves(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	w := startGPUs(ctx, t)
	tenon := w.command(t)
	w.create(ctx, t, on("b", pod("full-0", "", 11)), on("b", pod("full-1", "", 11)))
	w.running(ctx, t, "full-0", "full-1")
	w.replicated(ctx, t, "mover", claiming("x", "", 4)) // only node a has room
	w.create(ctx, t, on("a", pod("beside", "", 12)))
	w.running(ctx, t, "beside")
	w.end(ctx, t, "full-0", "full-1")
	w.create(ctx, t, on("b", pod("half-0", "", 8)), on("b", pod("half-1", "", 8)))
	w.running(ctx, t, "half-0", "half-1")
	w.create(ctx, t, claiming("goal", "", 12))
	w.waits(ctx, t, "goal", "cpu")

	var file string
	var p planned
	if err := wait.PollUntilContextTimeout(ctx, poll, time.Minute, true, func(ctx context.Context) (bool, error) {
		file, p = tenon.plan(ctx, t, "--for", "default/goal")
		return p.Found, nil // the nodes have to report first
	}); err != nil || len(p.Moves) != 1 || p.Moves[0].From != "a" {
		out, errs, _ := tenon.run(ctx, t, "defrag", "--for", "default/goal")
		t.Fatalf("the plan is %+v (%v)\n%s%s", p, err, out, errs)
	}
	out, errs, code := tenon.run(ctx, t, "defrag", "apply", file, "--yes", "--answer-timeout", "30s", "--run-timeout",
		"60s")
	if code != 0 {
		t.Fatalf("defrag apply: exit code %d\n%s%s", code, out, errs)
	}
	w.running(ctx, t, "goal")
	successor := w.replicated(ctx, t, "mover", nil)
	if successor == p.Moves[0].Name {
		t.Errorf("pod %s has not moved", successor)
	}
	w.near(ctx, t, "goal", successor)
}

// replicated creates a ReplicaSet of one pod, unless the pod is nil, waits until its pod runs, and returns the name of
// that.
func (w *world) replicated(ctx context.Context, t *testing.T, name string, p *v1.Pod) (of string) {
	t.Helper()
	labels := map[string]string{"set": name}
	if p != nil {
		p.Spec.RestartPolicy = v1.RestartPolicyAlways
		p.Spec.TerminationGracePeriodSeconds = new(int64(1))
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: p.Spec}}}
		if _, err := w.client.AppsV1().ReplicaSets("default").Create(ctx, set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, x := range pods {
			if x.Labels["set"] == name && x.Status.Phase == v1.PodRunning && x.DeletionTimestamp == nil {
				of = x.Name
				return true
			}
		}
		return false
	}); err != nil {
		t.Fatalf("the pod of %s does not run: %v", name, err)
	}
	return of
}
