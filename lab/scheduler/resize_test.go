package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	layouts "github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A resize in place changes what a pod requests, and with the gates' defaults never what it holds. The kubelet carries
// out the resize of a Burstable pod, which holds nothing. It refuses the resize of exclusive CPUs, although the pod's
// spec stays changed. A new scheduler, which reads the changed spec first, and a new kubelet, which admits the pod once
// more, place the next pods as if nothing had been resized. The same holds for a pod that requests its resources as a
// whole.
func TestPodsAreResized(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{Apart: true, Nodes: []lab.Node{{Name: "own", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}}},
		scheduler.Tenon)
	whole := workload.Pod("whole", v1.Container{Name: "c", Image: "example.com/work:v1"})
	amounts := v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi")}
	whole.Spec.Resources = &v1.ResourceRequirements{Requests: amounts, Limits: amounts}
	w.runs(ctx, t, cores("exclusive", 16), whole,
		workload.Pod("shares", workload.Burstable("c", workload.Amounts{"cpu": "200m", "memory": "64Mi"}, nil)))
	before := w.held(ctx, t)
	if len(before) != 1 || before["exclusive"] == nil {
		t.Fatalf("%v hold something, want the pod exclusive only", before)
	}

	w.resizes(ctx, t, "shares", "400m", func(p *v1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].AllocatedResources.Cpu().MilliValue() == 400
	})
	w.resizes(ctx, t, "exclusive", "20", func(p *v1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonInfeasible {
				return true
			}
		}
		return false
	})
	// The first NUMA node has 14 left. Had the resize counted, it would have 10, and one of these would wait.
	w.runs(ctx, t, cores("beside", 14), cores("other", 24))
	w.seen.check(t)
	w.ends(ctx, t, "beside")
	w.ends(ctx, t, "other")

	if err := w.RestartKubelet(ctx, "own", w.KubeletYAML("own")); err != nil {
		t.Fatal(err)
	}
	if err := w.sched.Stop(); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.sched, err = scheduler.Start(w.Dir, w.SchedulerKubeconfig, scheduler.Tenon, w.seen.add); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.sched.Stop(); err != nil {
			t.Error(err)
		}
	})
	// Until the kubelet has seen its pods once, those that are gone still hold what its files say, so a pod that holds
	// nothing comes first.
	w.runs(ctx, t, workload.Pod("first", workload.Burstable("c", workload.Amounts{"cpu": "100m"}, nil)))
	w.runs(ctx, t, cores("beside-again", 14), cores("other-again", 24))
	w.seen.check(t)
	if after := w.held(ctx, t, "exclusive"); !reflect.DeepEqual(after["exclusive"], before["exclusive"]) {
		t.Errorf("the pod holds %v, and held %v before its resize was refused", after["exclusive"], before["exclusive"])
	}
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
}

// The gates for exclusive resize permit the kubelet to carry out the resize of a pod with exclusive CPUs, but its
// managers then neither give CPUs nor take any, so the next pods find the same CPUs free. A kubelet that starts again
// compares what such a pod has with what it may have by then, and ends it.
func TestPodsWithExclusiveCPUsAreResized(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	config := halvesConfig + "featureGates: {InPlacePodVerticalScalingExclusiveCPUs: true, " +
		"InPlacePodVerticalScalingExclusiveMemory: true}\n"
	w := start(ctx, t, lab.Config{Apart: true, Nodes: []lab.Node{{Name: "own", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(config)}}},
		scheduler.Tenon)
	w.runs(ctx, t, cores("grows", 16), cores("shrinks", 8))
	before := w.held(ctx, t, "grows", "shrinks")
	carriedOut := true
	for name, cpus := range map[string]int64{"grows": 20, "shrinks": 6} {
		w.resizes(ctx, t, name, fmt.Sprint(cpus), func(p *v1.Pod) bool {
			if slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodResizePending }) {
				carriedOut = false // before 1.37 the managers refuse it
				return true
			}
			s := p.Status.ContainerStatuses
			return len(s) == 1 && s[0].AllocatedResources.Cpu().Value() == cpus
		})
	}
	// One NUMA node has 6 left. Had the resizes counted, it would have 4, and one of these would wait.
	w.runs(ctx, t, cores("beside", 6), cores("other", 26))
	w.seen.check(t)
	if after := w.held(ctx, t, "grows", "shrinks"); !reflect.DeepEqual(after["grows"], before["grows"]) ||
		!reflect.DeepEqual(after["shrinks"], before["shrinks"]) {
		t.Errorf("pods hold %v, and held %v before they were resized", after, before)
	}
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	if !carriedOut {
		return
	}
	if err := w.RestartKubelet(ctx, "own", w.KubeletYAML("own")); err != nil {
		t.Fatal(err)
	}
	ended := func(name string) bool {
		phase := w.pod(t, name).Status.Phase
		return phase == v1.PodFailed || phase == v1.PodSucceeded
	}
	if _, err := w.pods.Until(ctx, func([]*v1.Pod) bool { return ended("grows") && ended("shrinks") }); err != nil {
		t.Errorf("the kubelet does not end resized pods when it starts again: %v", err)
	}
	if ended("beside") || ended("other") {
		t.Error("a pod that was not resized has ended")
	}
}

// resizes changes the CPUs that the container of a pod requests, and its limit if it has one.
func (w *world) resizes(ctx context.Context, t *testing.T, name, cpu string, done func(*v1.Pod) bool) {
	t.Helper()
	changed := map[string]any{"requests": map[string]string{"cpu": cpu}}
	if len(w.pod(t, name).Spec.Containers[0].Resources.Limits) > 0 {
		changed["limits"] = map[string]string{"cpu": cpu}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "c", "resources": changed}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatalf("resize pod %s: %v", name, err)
	}
	if _, err := w.pods.Until(ctx, func([]*v1.Pod) bool { return done(w.pod(t, name)) }); err != nil {
		t.Fatalf("the kubelet does not answer to the resize of pod %s: %v: %+v", name, err, w.pod(t, name).Status)
	}
}

// held returns the holdings of pods in the node's layout, by name, once it has the named ones.
func (w *world) held(ctx context.Context, t *testing.T, names ...string) map[string][]string {
	t.Helper()
	nodes, err := layouts.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	err = wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		l, err := nodes.Get(ctx, "own", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		core, err := l.Core()
		if err != nil {
			return false, err
		}
		clear(out)
		for _, e := range core.Entries {
			for _, h := range e.Holdings {
				out[e.Pod.Name] = append(out[e.Pod.Name], fmt.Sprintf("%s %s %v", h.Container, h.CPUs, h.Memory))
			}
		}
		missing := slices.ContainsFunc(names, func(name string) bool { return out[name] == nil })
		return len(out) > 0 && !missing, nil
	})
	if err != nil {
		t.Fatalf("the layout says nothing: %v", err)
	}
	return out
}
