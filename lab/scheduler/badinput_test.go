package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// tick is the interval at which a test polls what it cannot follow as an event.
const tick = 20 * time.Millisecond

// one starts a cluster of one machine of two halves.
func one(ctx context.Context, t *testing.T, profiles string) *world {
	t.Helper()
	return start(ctx, t, lab.Config{
		Nodes:    []lab.Node{{Name: "halves", Machine: "halves"}},
		Machines: fstest.MapFS{"halves.txt": {Data: []byte(halves)}, "halves.yaml": {Data: []byte(halvesConfig)}},
	}, profiles)
}

// cores returns a Guaranteed pod of whole CPUs.
func cores(name string, n int) *v1.Pod {
	return workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(n), "memory": "1Gi"}))
}

// create creates pods.
func (w *world) create(ctx context.Context, t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	if err := workload.Create(ctx, w.client, pods...); err != nil {
		t.Fatal(err)
	}
}

// await waits until a pod has a fate, and returns the pod and its reason.
func (w *world) await(ctx context.Context, t *testing.T, name string, fate workload.Fate) (pod *v1.Pod, why string) {
	t.Helper()
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == name {
				f, said := workload.FateOf(p)
				pod, why = p, said
				return f == fate
			}
		}
		return false
	})
	if err != nil {
		t.Fatalf("pod %s is not %s: %v (it says %q)", name, fate, err, why)
	}
	return pod, why
}

// says waits until a pending pod has a reason.
func (w *world) says(ctx context.Context, t *testing.T, name, want string) {
	t.Helper()
	why := ""
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == name {
				var f workload.Fate
				f, why = workload.FateOf(p)
				return f == workload.Pending && strings.Contains(why, want)
			}
		}
		return false
	})
	if err != nil {
		t.Fatalf("pod %s does not say %q: %v (it says %q)", name, want, err, why)
	}
}

// runs fails the test unless a pod is placed and runs.
func (w *world) runs(ctx context.Context, t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	w.create(ctx, t, pods...)
	for _, p := range pods {
		w.await(ctx, t, p.Name, workload.Running)
	}
}

// contains fails the test unless a text contains all the others.
func contains(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(text, s) {
			t.Errorf("%s says %q, and not %q", what, text, s)
		}
	}
}

// bad are layouts that contradict themselves or exceed the bounds.
var bad = map[string]struct {
	spoil func(l *v1alpha1.NodeLayout)
	// refused is the API server's message, malformed the scheduler's.
	refused, malformed string
}{
	"numa-twice": {spoil: func(l *v1alpha1.NodeLayout) { l.Machine.NUMAs[1].ID = 0 },
		refused: `machine.numas[1]: Duplicate value: {"id":0}`},
	"negative": {spoil: func(l *v1alpha1.NodeLayout) { l.Machine.NUMAs[0].Memory = -1 },
		refused: "machine.numas[0].memory: Invalid value: -1: machine.numas[0].memory in body should be greater than or " +
			"equal to 0"},
	"cpu-twice": {spoil: func(l *v1alpha1.NodeLayout) { l.Machine.CPUs[1].CPUs[0] = "31-62" },
		malformed: `layout of node "cpu-twice": machine: cpu 31 is in NUMA node 0 and in NUMA node 1`},
	"many-cpus": {spoil: func(l *v1alpha1.NodeLayout) { l.Machine.CPUs[0].CPUs[0] = "0-4999" },
		malformed: `layout of node "many-cpus": machine: cpus[0]: CPUs of a thread list: 5000 is outside 1..4096`},
}

// A malformed object is refused with one clear message, and scheduling on other nodes continues.
func TestMalformedObjectsAffectNoOthers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := one(ctx, t, scheduler.Tenon)
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	good, err := layouts.Get(ctx, "halves", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			w.addNode(ctx, t, name)
			l := &v1alpha1.NodeLayout{ObjectMeta: metav1.ObjectMeta{Name: name}, Machine: *good.Machine.DeepCopy(),
				Rules: good.Rules}
			c.spoil(l)
			_, err := layouts.Create(ctx, l, metav1.CreateOptions{})
			switch {
			case c.refused == "" && err != nil:
				t.Fatal(err)
			case c.refused == "":
				message := awaitCondition(ctx, t, layouts, name, v1alpha1.ConditionAccepted, metav1.ConditionFalse)
				contains(t, "the condition", message, c.malformed)
			case err == nil:
				t.Error("the API server takes the layout")
			default:
				contains(t, "the API server", err.Error(), c.refused)
			}
			w.runs(ctx, t, cores("beside-"+name, 2))
		})
	}
	t.Run("a pod says which nodes it cannot be judged on", func(t *testing.T) {
		w.create(ctx, t, cores("wide", 32))
		_, why := w.await(ctx, t, "wide", workload.Pending)
		contains(t, "the pod", why, "0/5 nodes are available", "2 node has no layout",
			"1 node layout is refused: "+bad["cpu-twice"].malformed, "1 node layout is refused: "+bad["many-cpus"].malformed,
			`1 never on this machine: container "c" wants 32 cpu on one NUMA node; the largest has 30`)
	})
	t.Run("an annotation", func(t *testing.T) { unknownAnnotation(ctx, t, w) })
	t.Run("an argument", func(t *testing.T) {
		_, err := scheduler.Start(t.TempDir(), w.SchedulerKubeconfig, strings.Replace(scheduler.Tenon, "unknownNodes",
			"unknownNode", 1), nil)
		if err == nil {
			t.Fatal("a scheduler with an unknown argument starts")
		}
		contains(t, "the scheduler", err.Error(), "Tenon", `unknown field "unknownNode"`)
		w.runs(ctx, t, cores("after-argument", 2))
	})
	// From here on the scheduler puts pods where no kubelet runs them.
	t.Run("a layout is mended", func(t *testing.T) { mended(ctx, t, w, layouts) })
	pods, _ := w.pods.Pods()
	noRefusal(t, pods)
	w.confirmed(ctx, t, 4)
}

// confirmed waits until the node has confirmed this many predictions; none may be wrong.
func (w *world) confirmed(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
		w.seen.mu.Lock()
		defer w.seen.mu.Unlock()
		return w.seen.count[state.Confirmed] >= n, nil
	})
	if err != nil {
		t.Errorf("not %d predictions are confirmed: %v", n, err)
	}
	w.seen.check(t)
}

// mended corrects a rejected layout: a pod that waits for the node goes there.
func mended(ctx context.Context, t *testing.T, w *world, layouts *client.Client) {
	l, err := layouts.Get(ctx, "cpu-twice", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.Machine.CPUs[0].CPUs[0], l.Machine.CPUs[1].CPUs[0] = "0-47", "48-63"
	l.Rules.ReservedCPUs = "0-1"
	if _, err := layouts.Update(ctx, l, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitCondition(ctx, t, layouts, "cpu-twice", v1alpha1.ConditionAccepted, metav1.ConditionTrue)
	_, err = w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == "wide" {
				return p.Spec.NodeName == "cpu-twice"
			}
		}
		return false
	})
	if err != nil {
		t.Error(err)
	}
}

func unknownAnnotation(ctx context.Context, t *testing.T, w *world) {
	p := cores("strict", 2)
	p.Annotations = map[string]string{"tenon.sh/numa-policy": "strict"}
	w.create(ctx, t, p)
	const want = `pod default/strict: annotation tenon.sh/numa-policy: unknown value "strict": ` +
		`want one of none, best-effort, restricted, single-numa-node`
	_, why := w.await(ctx, t, "strict", workload.Pending)
	contains(t, "the pod", why, want)
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		events, err := w.client.CoreV1().Events("default").List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=strict"})
		if err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Reason == "FailedScheduling" && strings.Contains(e.Message, want) {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Errorf("no event names the annotation: %v", err)
	}
	w.runs(ctx, t, cores("beside-strict", 2))
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		"tenon.sh/numa-policy": "single-numa-node"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.CoreV1().Pods("default").Patch(ctx, "strict", types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await(ctx, t, "strict", workload.Running)
}

// addNode makes a Node object without a kubelet.
func (w *world) addNode(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	has := v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("128Gi"),
		"pods": resource.MustParse("110")}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}}
	if _, err := w.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitCondition waits for a layout's condition and returns its message.
func awaitCondition(ctx context.Context, t *testing.T, layouts *client.Client, name, condition string,
	want metav1.ConditionStatus) (message string) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		l, err := layouts.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(l.Status.Conditions, condition)
		if c == nil || c.Status != want {
			return false, nil
		}
		message = c.Message
		return true, nil
	})
	if err != nil {
		t.Fatalf("layout %s: no condition %s=%s: %v", name, condition, want, err)
	}
	return message
}
