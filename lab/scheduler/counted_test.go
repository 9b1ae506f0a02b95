package scheduler_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

var (
	batches = flag.Int("counted.batches", 3, "batches of six pods with a resource that the node does not count")
	beside  = flag.Bool("counted.beside", false, "also time the batches at a scheduler without Tenon")
)

// Six pods of 2 to 7 CPUs fill both NUMA nodes of the machine in one order, and not in every order: most of them wait
// for their turns.
const (
	tight = `
source made up: two NUMA nodes of 14 CPUs for pods each
numa 0 socket 0 cpus 0-15 memory 62Gi
numa 1 socket 1 cpus 16-31 memory 62Gi
distances 10 21
distances 21 10
`
	tightConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0-1,16-17
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
topologyManagerScope: container
systemReserved: {memory: 3Gi}
evictionHard: {memory.available: 1Gi}
reservedMemory:
- {numaNode: 0, limits: {memory: 2Gi}}
- {numaNode: 1, limits: {memory: 2Gi}}
`
	tightNode = "tight"
)

func startTight(ctx context.Context, t *testing.T, configuration string) *world {
	t.Helper()
	return start(ctx, t, lab.Config{Nodes: []lab.Node{{Name: tightNode, Machine: "tight"}},
		Machines: fstest.MapFS{"tight.txt": {Data: []byte(tight)}, "tight.yaml": {Data: []byte(tightConfig)}}},
		configuration)
}

// six returns pods of 2 to 7 CPUs that request one of an extended resource, if it has a name.
func six(batch int, name v1.ResourceName) (out []*v1.Pod) {
	for n := 2; n <= 7; n++ {
		p := cores(fmt.Sprintf("b%d-%d", batch, n), n)
		if r := &p.Spec.Containers[0].Resources; name != "" {
			r.Requests[name], r.Limits[name] = resource.MustParse("1"), resource.MustParse("1")
		}
		out = append(out, p)
	}
	return out
}

// batches creates batches of pods, and fails the test unless they are bound, and none is declined after a node was
// chosen for it. Pods may have to wait until the node has reported that the last batch is gone. In some orders of
// scheduling the last pod has no place beside the others, and its event reports that; in most batches it has one.
func (w *world) batches(ctx context.Context, t *testing.T, name v1.ResourceName, after func()) (took []time.Duration) {
	t.Helper()
	before, whole := attempts(t, "error"), 0
	seen := before
	for i := range *batches {
		began := time.Now()
		w.create(ctx, t, six(i, name)...)
		placed := func(pods []*v1.Pod) bool { return len(pods) == 6 && bound(pods)+crowdedOut(i, pods) == 6 }
		if pods, err := w.pods.Until(ctx, placed); err != nil {
			t.Fatalf("batch %d: %v: %s", i, err, waitFor(pods))
		}
		atBinding := time.Since(began)
		pods, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
			return placed(pods) && !slices.ContainsFunc(pods, begins)
		})
		if err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		took = append(took, time.Since(began))
		t.Logf("batch %d: %d bound after %s, and run after %s", i, bound(pods), atBinding.Round(time.Millisecond),
			took[i].Round(time.Millisecond))
		if w.tenon {
			noRefusal(t, pods)
		}
		if now := attempts(t, "error"); now > seen {
			seen = now
			w.failures(ctx, t)
		}
		if bound(pods) == 6 {
			whole++
		}
		for _, p := range pods {
			if p.Spec.NodeName == "" { // or it would be bound while it is deleted
				w.ends(ctx, t, p.Name)
			}
		}
		if err := w.pods.Clear(ctx, w.client); err != nil {
			t.Fatal(err)
		}
		after()
	}
	if n := attempts(t, "error") - before; n > 0 {
		t.Errorf("%d pods were declined, and all fit", n)
	}
	if whole <= *batches/2 {
		t.Errorf("of %d batches %d were bound as a whole", *batches, whole)
	}
	return took
}

// begins reports whether a bound pod has still to run, or to be refused.
func begins(p *v1.Pod) bool {
	fate, _ := workload.FateOf(p)
	return p.Spec.NodeName != "" && fate == workload.Waiting
}

// compare times the batches of a test at a scheduler with Tenon and, if that is wanted, at one without it, which also
// binds pods that the kubelet refuses. It logs the times for people; no test fails because of them.
func compare(t *testing.T, batches func(t *testing.T, profiles string) []time.Duration) {
	median := func(took []time.Duration) time.Duration {
		slices.Sort(took)
		return took[len(took)/2].Round(time.Millisecond)
	}
	var with, without []time.Duration
	t.Run("Tenon", func(t *testing.T) { with = batches(t, scheduler.Tenon) })
	if !*beside {
		return
	}
	t.Run("plain", func(t *testing.T) { without = batches(t, scheduler.Plain) })
	t.Logf("median of a batch: %s, without Tenon %s", median(with), median(without))
}

// failures logs why pods were not scheduled.
func (w *world) failures(ctx context.Context, t *testing.T) {
	t.Helper()
	list, err := w.client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == "FailedScheduling" {
			t.Logf("pod %s: %s", e.Regarding.Name, e.Note)
		}
	}
}

// waitFor says of the pods that are not bound what their conditions say.
func waitFor(pods []*v1.Pod) (out []string) {
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			out = append(out, fmt.Sprintf("%s: %+v", p.Name, p.Status.Conditions))
		}
	}
	return out
}

// crowdedOut returns how many pods wait for nothing but other pods of their batch.
func crowdedOut(batch int, pods []*v1.Pod) (n int) {
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodScheduled && p.Spec.NodeName == "" &&
				(strings.Contains(c.Message, fmt.Sprintf("it fits there when one of these pods ends: b%d-", batch)) ||
					strings.Contains(c.Message, fmt.Sprintf("it fits there when pod b%d-", batch))) {
				n++
			}
		}
	}
	return n
}

// The node has none of an extended resource that DRA serves: kube-scheduler allocates devices of a class instead of
// counting. A pod that has waited for its turn is not declined for it, and its claim stays.
func TestResourcesThatDRAServesDeclineNoPod(t *testing.T) { compare(t, servedByDRA) }

func servedByDRA(t *testing.T, profiles string) (took []time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*batches)*20*time.Second)
	defer cancel()
	w := startTight(ctx, t, profiles)
	w.serves(ctx, t)
	// By its class's own name, a pod needs no name in the class.
	for _, name := range []v1.ResourceName{served, v1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu")} {
		took = append(took, w.batches(ctx, t, name, func() { w.dropClaims(ctx, t) })...)
	}
	if w.tenon {
		w.seen.check(t)
	}
	return took
}

// served is an extended resource that DRA serves: the node has eight devices of its class, and counts none.
const served = "example.com/served"

func (w *world) serves(ctx context.Context, t *testing.T) {
	t.Helper()
	w.publish(ctx, t, served, map[string][]int64{tightNode: slices.Repeat([]int64{-1}, 8)})
}

// kube-scheduler does not count what DRA serves. So a pod that asks for it and waits says whom it waits for, whether
// NUMA nodes or the whole node have too few CPUs.
func TestAPodOfResourcesThatDRAServesSaysWhomItWaitsFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := startTight(ctx, t, scheduler.Tenon)
	w.serves(ctx, t)
	six := six(0, served)
	for _, size := range []int{6, 3, 2, 4, 5} { // NUMA node 0 has 3 CPUs left, NUMA node 1 has 5
		w.runs(ctx, t, six[size-2])
	}
	w.create(ctx, t, six[7-2])
	w.says(ctx, t, "b0-7", "it fits there when one of these pods ends: b0-4, b0-5, b0-6")
	full := cores("full", 9)
	for _, list := range []v1.ResourceList{full.Spec.Containers[0].Resources.Requests,
		full.Spec.Containers[0].Resources.Limits} {
		list[served] = resource.MustParse("1")
	}
	w.create(ctx, t, full)
	w.says(ctx, t, "full", "Not now: pod wants 9 cpu; the node has 8 left")
	w.says(ctx, t, "full", "it fits there when one of these pods ends: ")
}

// dropClaims deletes the claims of pods that are gone, as a controller of claims does.
func (w *world) dropClaims(ctx context.Context, t *testing.T) {
	t.Helper()
	api := w.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	for {
		list, err := api.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			return
		}
		for i := range list.Items {
			name := list.Items[i].Name
			_, err := api.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
				metav1.PatchOptions{})
			if err == nil {
				_ = api.Delete(ctx, name, metav1.DeleteOptions{}) // the next list shows whether it is gone
			}
		}
	}
}

// An extender that manages a resource counts it, and kube-scheduler ignores it.
func TestResourcesOfAnExtenderDeclineNoPod(t *testing.T) { compare(t, countedByAnExtender) }

func countedByAnExtender(t *testing.T, profiles string) []time.Duration {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*batches)*20*time.Second)
	defer cancel()
	const managed = "example.com/memory"
	extender := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		var asked struct{ NodeNames *[]string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Errorf("the extender is asked: %v", err)
		}
		answer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(answer).Encode(map[string]any{"NodeNames": asked.NodeNames})
	}))
	defer extender.Close()
	w := startTight(ctx, t, profiles+fmt.Sprintf(`extenders:
- urlPrefix: %q
  filterVerb: filter
  weight: 1
  nodeCacheCapable: true
  httpTimeout: 30s
  managedResources: [{name: %s, ignoredByScheduler: true}]
`, extender.URL, managed))
	took := w.batches(ctx, t, managed, func() {})
	if w.tenon {
		w.seen.check(t)
	}
	return took
}

// A resize that the kubelet cannot carry out takes nothing of the node, although the pod's spec asks for it.
func TestAnInfeasibleResizeDeclinesNoPod(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(*batches)*20*time.Second)
	defer cancel()
	w := startTight(ctx, t, scheduler.Tenon)
	for i := range *batches {
		before := attempts(t, "error")
		w.runs(ctx, t, cores("resized", 1))
		w.resizes(ctx, t, "resized", "20", func(p *v1.Pod) bool {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonInfeasible {
					return true
				}
			}
			return false
		})
		w.create(ctx, t, six(i, "")[1:]...) // the resized pod has one of the CPUs
		if pods, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool { return bound(pods) == 6 }); err != nil {
			t.Fatalf("batch %d: %v: %s", i, err, waitFor(pods))
		}
		if n := attempts(t, "error") - before; n > 0 {
			t.Errorf("batch %d: %d pods were declined, and all fit", i, n)
		}
		pods, _ := w.pods.Pods()
		noRefusal(t, pods)
		if err := w.pods.Clear(ctx, w.client); err != nil {
			t.Fatal(err)
		}
	}
	w.seen.check(t)
}
