package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// failures returns how many attempts to schedule a pod have failed in this process.
func failures(t *testing.T) (n int) {
	t.Helper()
	return attempts(t, "unschedulable", "error")
}

// attempts returns how many attempts of schedulers of this process ended with one of these results. A pod that a plugin
// declines after a node was chosen ends with "error".
func attempts(t *testing.T, results ...string) (n int) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "scheduler_schedule_attempts_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "result" && slices.Contains(results, l.GetValue()) {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}

// Sixty pods of three kinds wait for one place. Whenever it becomes free the most important pod takes it; of each of
// the other kinds at most one pod is tried without success. Pods that come and go beside them wake no pod.
func TestWaitingPodsAreTriedWhenThatHelps(t *testing.T) {
	const each, rounds, passers = 20, 6, 8
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "halves", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}},
	}, scheduler.Tenon)
	calm := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "calm"}, Value: 1000,
		PreemptionPolicy: ptr.To(v1.PreemptNever)}
	if _, err := w.client.SchedulingV1().PriorityClasses().Create(ctx, calm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// On each NUMA node 14 CPUs are left: the node as a whole has enough for any of the waiting pods.
	w.runs(ctx, t, cores("first", 16), cores("other", 16))
	before := failures(t)
	var large []*v1.Pod
	for i := range each {
		for kind := range 3 {
			large = append(large, cores(fmt.Sprintf("large-%d-%02d", kind, i), 20+kind))
		}
	}
	urgent := large[len(large)-1]
	urgent.Spec.PriorityClassName = "calm"
	w.create(ctx, t, large...)
	if _, err := w.pods.Until(ctx, workload.Settled(len(large)+2)); err != nil {
		t.Fatal(err)
	}
	first := failures(t) - before

	pass := func(name string) {
		w.runs(ctx, t, cores(name, 2))
		w.ends(ctx, t, name)
	}
	for i := range passers {
		pass(fmt.Sprint("passer-", i))
	}
	holder := "first"
	for round := range rounds {
		w.ends(ctx, t, holder)
		holder = w.takes(ctx, t, large)
		if round == 0 && holder != urgent.Name {
			t.Errorf("pod %s takes the place before the most important one", holder)
		}
		pass(fmt.Sprint("later-", round))
	}
	again := failures(t) - before - first
	t.Logf("%d pods waited: %d attempts failed at first, %d in %d rounds with %d changes that helped nobody",
		len(large), first, again, rounds, 2*(passers+rounds))
	// If the machine is busy, the pod's object and the node's report may show an end at different times, which wakes
	// twice.
	if most := 3 * rounds; again > most {
		t.Errorf("%d attempts failed after each pod was tried, want at most %d: two kinds in each round, and some twice",
			again, most)
	}
	if slack := len(large) / 10; first > len(large)+slack {
		t.Errorf("%d attempts failed before anything had changed, %d pods wait", first, len(large))
	}
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.seen.check(t)
}

// ends deletes a pod and waits until it is gone.
func (w *world) ends(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if err := w.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == name {
				return false
			}
		}
		return true
	}); err != nil {
		t.Fatalf("pod %s does not end: %v", name, err)
	}
}

// takes waits until one of some pods runs.
func (w *world) takes(ctx context.Context, t *testing.T, some []*v1.Pod) (name string) {
	t.Helper()
	mine := map[string]bool{}
	for _, p := range some {
		mine[p.Name] = true
	}
	if _, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if f, _ := workload.FateOf(p); f == workload.Running && mine[p.Name] {
				name = p.Name
				return true
			}
		}
		return false
	}); err != nil {
		t.Fatalf("nobody takes a place that is free: %v", err)
	}
	return name
}
