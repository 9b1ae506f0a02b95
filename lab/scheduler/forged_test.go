package scheduler_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A decision that the scheduler did not make for this pod on this node has no effect. The API server refuses it from
// everyone but the scheduler. If one gets past that, the agent ignores it and writes an event.
func TestForgedDecisions(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "own", Machine: "pinned", Pinned: true}},
		Machines: fstest.MapFS{"pinned.txt": {Data: []byte(pinnedMachine)}, "pinned.yaml": {Data: []byte(pinnedConfig)}},
	}, scheduler.Tenon)
	w.runs(ctx, t, cores("owner", 4))
	owner, _ := w.await(ctx, t, "owner", workload.Running)
	text := owner.Annotations[v1alpha1.DecisionAnnotation]
	if text == "" {
		t.Fatal("the scheduler decided nothing")
	}
	w.refuses(ctx, t, text)

	w.sneaks(ctx, t, "thief", func(*v1.Pod) string { return text })
	w.hasEvent(ctx, t, "thief", "PlacementIgnored", "it is for the pod with UID "+string(owner.UID))
	w.sneaks(ctx, t, "stranger", func(p *v1.Pod) string { return altered(t, text, string(p.UID), "other") })
	w.hasEvent(ctx, t, "stranger", "PlacementIgnored", "it is for node other")
	w.sneaks(ctx, t, "liar", func(p *v1.Pod) string { return altered(t, text, string(p.UID), "own") })
	w.hasEvent(ctx, t, "liar", "PlacementReplaced", "is not free")
	w.oneOwnerEach(t, 4, owner)

	w.ends(ctx, t, "owner")
	w.sneaks(ctx, t, "owner", func(*v1.Pod) string { return text })
	w.hasEvent(ctx, t, "owner", "PlacementIgnored", "it is for the pod with UID "+string(owner.UID))
	w.oneOwnerEach(t, 4, nil)
}

// refuses fails the test if the API server takes a decision from a pod's author.
func (w *world) refuses(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	const refusal = "is the scheduler's to write"
	pods := w.client.CoreV1().Pods(metav1.NamespaceDefault)
	p := cores("forger", 4)
	p.Annotations = map[string]string{v1alpha1.DecisionAnnotation: text}
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("a pod that is created with another's decision: %v", err)
	}
	p.Annotations, p.Spec.SchedulerName = nil, "nobody"
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := pods.Bind(ctx, bindingOf("forger", text), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("a binding with another's decision: %v", err)
	}
	w.ends(ctx, t, "forger")
}

// sneaks runs a pod of four CPUs with a decision as a client could that had the scheduler's account.
func (w *world) sneaks(ctx context.Context, t *testing.T, name string, text func(*v1.Pod) string) {
	t.Helper()
	p := cores(name, 4)
	p.Spec.SchedulerName = "nobody"
	p, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(w.RESTConfig())
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:tenon-system:tenon-scheduler",
		Groups: []string{"system:authenticated", "system:masters"}}
	err = kubernetes.NewForConfigOrDie(as).CoreV1().Pods(p.Namespace).Bind(ctx, bindingOf(name, text(p)),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, name, workload.Running)
}

func bindingOf(name, text string) *v1.Binding {
	return &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name,
		Annotations: map[string]string{v1alpha1.DecisionAnnotation: text}},
		Target: v1.ObjectReference{Kind: "Node", Name: "own"}}
}

// altered returns the text of a decision with another pod's UID and another node.
func altered(t *testing.T, text, uid, node string) string {
	t.Helper()
	var d v1alpha1.Decision
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	d.UID, d.Node = uid, node
	out, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// oneOwnerEach fails the test unless every running pod is pinned to four CPUs that no other one has, and one of them,
// if named, to what the scheduler decided.
func (w *world) oneOwnerEach(t *testing.T, running int, decided *v1.Pod) {
	t.Helper()
	var taken idset.Set[idset.CPU]
	sets := w.cpusets(t)
	pods, _ := w.pods.Pods()
	if len(pods) != running {
		t.Errorf("%d pods are there, want %d", len(pods), running)
	}
	for _, p := range pods {
		set := sets[string(p.UID)+"/c"]
		cpus, err := idset.Parse[idset.CPU](set.CPUs)
		if err != nil || cpus.Len() != 4 || cpus.AndLen(taken) > 0 {
			t.Errorf("pod %s is pinned to %+v; others have %s (%v)", p.Name, set, taken, err)
		}
		taken = taken.Union(cpus)
		if decided != nil && p.UID == decided.UID && !isDecided(t, p, set) {
			t.Errorf("pod %s is pinned to %+v, not as decided: %s", p.Name, set, p.Annotations)
		}
	}
}

func isDecided(t *testing.T, p *v1.Pod, set kubelet.CPUSet) bool {
	t.Helper()
	var d v1alpha1.Decision
	if err := json.Unmarshal([]byte(p.Annotations[v1alpha1.DecisionAnnotation]), &d); err != nil {
		t.Fatal(err)
	}
	return len(d.Containers) == 1 && string(d.Containers[0].CPUs) == set.CPUs
}
