//go:build !upto1.36

package operators_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/controllers"
	"github.com/tenon-numa/tenon/lab/operators"
	"github.com/tenon-numa/tenon/lab/rights"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	controllers.MaybeChild()
	if err := lab.EnableGangs(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// poll is the interval at which the tests ask the API server.
const poll = 50 * time.Millisecond

// size is how many pods the gang of each example has. The node has room for one gang, and for one pod of another.
const size = 3

// limit bounds a test. Most of it is for the first build of an operator.
const limit = 20 * time.Minute

// world is a cluster with an operator, controllers and a scheduler.
type world struct {
	*lab.Cluster
	sched  *scheduler.Running
	client kubernetes.Interface
	others dynamic.Interface
	pods   *workload.Watch
	example
	text string // of the example
}

// start starts a cluster of one node with an operator.
func start(ctx context.Context, t *testing.T, name string) *world {
	t.Helper()
	w := startOn(ctx, t, name, lab.Config{Nodes: []lab.Node{{Name: "a", Machine: "xeon-2s"}}})
	text, err := os.ReadFile("../../examples/operators/gangs/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.text = string(text)
	return w
}

// startOn starts a cluster with an operator, on the nodes of a configuration.
func startOn(ctx context.Context, t *testing.T, name string, cfg lab.Config) *world {
	t.Helper()
	o, err := operators.Prepare(ctx, name, t.TempDir(), func(line string) { fmt.Println(line) })
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := o.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	stopped := func(stop func() error) {
		t.Cleanup(func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
	requests, err := operators.ProvisioningRequests(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cfg.CRDs, cfg.APIs = append(definitions, requests), lab.GangAPIs
	c, err := lab.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	stopped(c.Stop)
	m, err := controllers.Start(c.Dir, c.KubeconfigPath, controllers.ForGroups()...)
	if err != nil {
		t.Fatal(err)
	}
	stopped(m.Stop)
	s, err := scheduler.Start(c.Dir, c.SchedulerKubeconfig, scheduler.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped(s.Stop)
	if err := o.Start(ctx, c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	stopped(o.Stop)
	w := &world{Cluster: c, sched: s, example: examples[name], client: kubernetes.NewForConfigOrDie(c.RESTConfig()),
		others: dynamic.NewForConfigOrDie(c.RESTConfig())}
	if w.pods, err = workload.Follow(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pods.Stop)
	return w
}

// example is what the example of an operator has: a gang, and an object of the same name that makes its pods.
type example struct {
	gang   string
	object schema.GroupVersionResource
}

var examples = map[string]example{
	operators.Kueue: {"trainer", schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}},
	operators.JobSet: {"trainer", schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2",
		Resource: "jobsets"}},
	operators.LeaderWorkerSet: {"llm", schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1",
		Resource: "leaderworkersets"}},
}

// apply applies the example, with another name of the gang.
func (w *world) apply(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	text := strings.ReplaceAll(w.text, w.gang, name)
	if err := rights.Apply(ctx, w.RESTConfig(), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// remove deletes the objects of a gang as kubectl delete does, and waits until its pods and its PodGroup are gone.
func (w *world) remove(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	how := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := w.others.Resource(w.object).Namespace("default").Delete(ctx, name, how); err != nil {
		t.Fatal(err)
	}
	groups := w.client.SchedulingV1beta1().PodGroups("default")
	if err := groups.Delete(ctx, name, how); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		all, _ := w.pods.Pods()
		_, err := groups.Get(ctx, name, metav1.GetOptions{})
		return len(members(all, name)) == 0 && apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Fatalf("the pods or the PodGroup of gang %s are left: %v", name, err)
	}
}

// members returns the pods of a PodGroup.
func members(all []*v1.Pod, name string) (out []*v1.Pod) {
	for _, p := range all {
		if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil && *g.PodGroupName == name {
			out = append(out, p)
		}
	}
	return out
}

// fates counts the pods of a gang by their fate.
func fates(pods []*v1.Pod) map[workload.Fate]int {
	out := map[workload.Fate]int{}
	for _, p := range pods {
		f, _ := workload.FateOf(p)
		out[f]++
	}
	return out
}

// until waits until a gang has exactly its pods, all with one fate, and returns the pods. It fails the test at once if
// a pod that should wait has a node.
func (w *world) until(ctx context.Context, t *testing.T, name string, fate workload.Fate) []*v1.Pod {
	t.Helper()
	bound := func(p *v1.Pod) bool { return fate == workload.Pending && p.Spec.NodeName != "" }
	all, err := w.pods.Until(ctx, func(all []*v1.Pod) bool {
		pods := members(all, name)
		return len(pods) == size && fates(pods)[fate] == size || slices.ContainsFunc(pods, bound)
	})
	if err != nil || slices.ContainsFunc(members(all, name), bound) {
		for _, p := range all {
			f, why := workload.FateOf(p)
			t.Logf("pod %s on %q: %s: %s", p.Name, p.Spec.NodeName, f, why)
		}
		t.Fatalf("not all pods of gang %s are %s: %v", name, fate, err)
	}
	return members(all, name)
}

// onOneNUMANode fails the test unless the kubelet gave each pod exclusive CPUs and memory of one NUMA node.
func (w *world) onOneNUMANode(ctx context.Context, t *testing.T, pods []*v1.Pod) {
	t.Helper()
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, p := range pods {
		missing[string(p.UID)] = true
	}
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		l, err := layouts.Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c, err := l.Core()
		if err != nil {
			return false, err
		}
		for _, e := range c.Entries {
			if !missing[e.Pod.UID] {
				continue
			}
			delete(missing, e.Pod.UID)
			if n := (place.Verdict{Holdings: e.Holdings}).NUMAs(c.Machine).Len(); n != 1 {
				t.Errorf("pod %s is on %d NUMA nodes: %v", e.Pod.Name, n, e.Holdings)
			}
		}
		return len(missing) == 0, nil
	})
	if err != nil {
		t.Fatalf("node a does not report pods %v: %v", missing, err)
	}
}

// startsWhole starts a cluster with an operator. It fails the test unless the pods of the example are a gang: all of
// them run, each on one NUMA node. The pods of a second object wait then, although one of them would fit.
func startsWhole(ctx context.Context, t *testing.T, name string) *world {
	t.Helper()
	w := start(ctx, t, name)
	w.apply(ctx, t, w.gang)
	w.onOneNUMANode(ctx, t, w.until(ctx, t, w.gang, workload.Running))
	w.apply(ctx, t, second)
	w.until(ctx, t, second, workload.Pending)
	return w
}

// second is the gang that waits for the first one.
const second = "second"

// turns deletes the object of the first gang. It fails the test unless the second gang runs then.
func (w *world) turns(ctx context.Context, t *testing.T) {
	t.Helper()
	w.remove(ctx, t, w.gang)
	w.onOneNUMANode(ctx, t, w.until(ctx, t, second, workload.Running))
}

// A third Job has no pods, because its queue has no quota left for it. The second one has quota, and its pods wait
// for room.
func TestGangsOfKueue(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := startsWhole(ctx, t, operators.Kueue)
	w.apply(ctx, t, "third")
	w.waitsForQuota(ctx, t, "third")
	w.remove(ctx, t, "third")
	w.turns(ctx, t)
}

// waitsForQuota waits until Kueue reports that a Job has to wait for quota. It fails the test if the Job has pods.
func (w *world) waitsForQuota(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
	var workloads *unstructured.UnstructuredList
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		var err error
		workloads, err = w.others.Resource(resource).Namespace("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(workloads.Items, func(o unstructured.Unstructured) bool {
			return o.GetOwnerReferences()[0].Name == name && reason(o, "QuotaReserved") == "Pending"
		}), nil
	})
	if err != nil {
		t.Fatalf("Kueue does not report that %s waits for quota: %v", name, err)
	}
	all, _ := w.pods.Pods()
	if n := len(members(all, name)); n > 0 {
		t.Errorf("job %s has %d pods without quota", name, n)
	}
}

// reason returns the reason of a condition of an object, or "".
func reason(o unstructured.Unstructured, condition string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == condition {
			return fmt.Sprint(c["reason"])
		}
	}
	return ""
}

// The pods of a JobSet that demands NUMA nodes without limits wait, and one of them has the reason.
func TestGangsOfJobSet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := startsWhole(ctx, t, operators.JobSet)
	w.turns(ctx, t)
	w.text = regexp.MustCompile(`(?m)^ *limits: .*\n`).ReplaceAllString(w.text, "")
	w.apply(ctx, t, "shared")
	const want = "demands single-numa-node, and no node can give it CPUs, memory or devices of its own"
	if !slices.ContainsFunc(w.until(ctx, t, "shared", workload.Pending), func(p *v1.Pod) bool {
		_, why := workload.FateOf(p)
		return strings.Contains(why, want)
	}) {
		t.Errorf("no pod without limits has the reason %q", want)
	}
}

// When a pod of a LeaderWorkerSet is deleted, the operator replaces the whole group, and the new pods are a gang.
func TestGangsOfLeaderWorkerSet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := startsWhole(ctx, t, operators.LeaderWorkerSet)
	w.turns(ctx, t)
	before := w.until(ctx, t, second, workload.Running)
	if err := w.client.CoreV1().Pods("default").Delete(ctx, second+"-0-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.pods.Until(ctx, func(all []*v1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *v1.Pod) bool {
			return slices.ContainsFunc(before, func(old *v1.Pod) bool { return old.UID == p.UID })
		})
	})
	if err != nil {
		t.Fatalf("pods of the group are left: %v", err)
	}
	w.onOneNUMANode(ctx, t, w.until(ctx, t, second, workload.Running))
}

// The page about gangs shows one of the examples as it is.
func TestThePageShowsAnExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/gangs.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../examples/operators/gangs/lws.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+string(text)+"```") {
		t.Error("docs/howto/gangs.md does not show examples/operators/gangs/lws.yaml")
	}
}
