package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/manifest"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

const samplesDir = "../../examples/workloads"

// samples are the files with examples of workloads, and the test of each.
var samples = map[string]func(ctx context.Context, t *testing.T, w *world, pods []*v1.Pod){
	"batch.yaml":        batch,
	"dpdk.yaml":         dpdk,
	"gpu-training.yaml": training,
	"inference.yaml":    inference,
	"statefulset.yaml":  database,
}

// Every example has the effect that its comment describes, on a cluster of two packet processors and a server with
// eight GPUs. There is no controller manager: the test creates the pods of the objects, which the API server has
// accepted.
func TestSamplesDoWhatTheySay(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{Nodes: []lab.Node{{Name: "packets-0", Machine: "xeon-2s"},
		{Name: "packets-1", Machine: "xeon-2s"}, {Name: "gpus", Machine: "gpu-8"}}}, scheduler.Tenon+scheduler.Second)
	files, err := filepath.Glob(samplesDir + "/*")
	if err != nil || len(files) != len(samples) {
		t.Fatalf("%d files in %s (%v), and a test of %d", len(files), samplesDir, err, len(samples))
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			does := samples[name]
			if does == nil {
				t.Fatal("there is no test of this example")
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w.apply(ctx, t, text)
			does(ctx, t, w, podsOf(t, text))
			w.clearsUnrefused(ctx, t)
		})
	}
	w.seen.check(t)
}

// clearsUnrefused asserts that no kubelet has refused a pod, and removes all pods, until no node reports any.
func (w *world) clearsUnrefused(ctx context.Context, t *testing.T) {
	t.Helper()
	all, _ := w.pods.Pods()
	noRefusal(t, all)
	if err := w.pods.Clear(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	w.reportsNothing(ctx, t)
}

// apply creates the objects of a file as kubectl does; an unknown field is an error.
func (w *world) apply(ctx context.Context, t *testing.T, text []byte) {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClientForConfigOrDie(w.RESTConfig()))
	if err != nil {
		t.Fatal(err)
	}
	mapper, objects := restmapper.NewDiscoveryRESTMapper(groups), dynamic.NewForConfigOrDie(w.RESTConfig())
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var u unstructured.Unstructured
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		kind := u.GroupVersionKind()
		at, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		_, err = objects.Resource(at.Resource).Namespace(metav1.NamespaceDefault).Create(ctx, &u,
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatalf("create %s %s: %v", kind.Kind, u.GetName(), err)
		}
	}
}

// podsOf returns the pods that controllers make of a file's object, with a grace period of 0.
func podsOf(t *testing.T, text []byte) (out []*v1.Pod) {
	t.Helper()
	f, err := manifest.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Templates) != 1 {
		t.Fatalf("%d objects with pods, want one", len(f.Templates))
	}
	tpl := f.Templates[0]
	for i := range tpl.Count {
		p := tpl.Pod.DeepCopy()
		p.Name, p.GenerateName, p.Namespace = fmt.Sprintf("%s-%d", tpl.Name, i), "", metav1.NamespaceDefault
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
		out = append(out, p)
	}
	return out
}

// given is what the kubelet of a pod's node has given the pod's containers.
type given struct {
	machine  *topo.Machine
	holdings []place.Holding
}

// given waits until a pod runs and its node reports its holdings.
func (w *world) given(ctx context.Context, t *testing.T, name string) (node string, g given) {
	t.Helper()
	pod, _ := w.await(ctx, t, name, workload.Running)
	return pod.Spec.NodeName, w.reportOf(ctx, t, pod)
}

// reportOf waits until the node of a pod reports what it has given the pod.
func (w *world) reportOf(ctx context.Context, t *testing.T, pod *v1.Pod) (g given) {
	t.Helper()
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		l, err := layouts.Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c, err := l.Core()
		if err != nil {
			return false, err
		}
		for _, e := range c.Entries {
			if e.Pod.UID == string(pod.UID) {
				g = given{c.Machine, e.Holdings}
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatalf("node %s does not report pod %s: %v", pod.Spec.NodeName, pod.Name, err)
	}
	return g
}

// reportsNothing waits until no node reports a pod.
func (w *world) reportsNothing(ctx context.Context, t *testing.T) {
	t.Helper()
	layouts, err := client.New(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		for _, n := range w.Nodes {
			l, err := layouts.Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if c, err := l.Core(); err != nil || len(c.Entries) > 0 {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("nodes report pods that are gone: %v", err)
	}
}

// oneNUMANode fails the test unless all holdings of a pod's containers are on one NUMA node, and equal the pod's
// requests of CPUs, devices and memory. It returns the node and the NUMA node.
func (w *world) oneNUMANode(ctx context.Context, t *testing.T, pod *v1.Pod) string {
	t.Helper()
	node, g := w.given(ctx, t, pod.Name)
	on := place.Verdict{Holdings: g.holdings}.NUMAs(g.machine)
	if on.Len() != 1 {
		t.Errorf("pod %s holds pieces of %d NUMA nodes of node %s", pod.Name, on.Len(), node)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		i := slices.IndexFunc(g.holdings, func(h place.Holding) bool { return h.Container == c.Name })
		if i < 0 {
			t.Errorf("container %s of pod %s holds nothing", c.Name, pod.Name)
			continue
		}
		has := amounts(g.holdings[i])
		for r, want := range c.Resources.Limits {
			if got := has[string(r)]; got != want.Value() {
				t.Errorf("container %s of pod %s holds %d of %s, want %s", c.Name, pod.Name, got, r, want.String())
			}
		}
	}
	return fmt.Sprint(node, " ", on)
}

// amounts returns how much a container holds of each resource.
func amounts(h place.Holding) map[string]int64 {
	out := map[string]int64{string(v1.ResourceCPU): int64(h.CPUs.Len())}
	for _, b := range h.Memory {
		out[b.Kind] += b.Bytes
	}
	for _, d := range h.Devices {
		out[d.Resource] += int64(len(d.IDs))
	}
	return out
}

// aligned creates pods, and returns where each of them is.
func (w *world) aligned(ctx context.Context, t *testing.T, pods []*v1.Pod) (at []string) {
	t.Helper()
	w.create(ctx, t, pods...)
	for _, p := range pods {
		at = append(at, w.oneNUMANode(ctx, t, p))
	}
	return at
}

func dpdk(ctx context.Context, t *testing.T, w *world, pods []*v1.Pod) {
	w.aligned(ctx, t, pods)
	// Sixteen functions are on four NUMA nodes: the ninth pod of two waits.
	var more []*v1.Pod
	for i := range 7 {
		p := pods[0].DeepCopy()
		p.Name = fmt.Sprintf("forwarder-more-%d", i)
		more = append(more, p)
	}
	w.aligned(ctx, t, more[:6])
	w.create(ctx, t, more[6])
	w.says(ctx, t, more[6].Name, "intel.com/sriov_vf")
}

func training(ctx context.Context, t *testing.T, w *world, pods []*v1.Pod) {
	if at := w.aligned(ctx, t, pods); len(at) != 2 || at[0] == at[1] {
		t.Errorf("the workers are on %q, want different NUMA nodes", at)
	}
}

func inference(ctx context.Context, t *testing.T, w *world, pods []*v1.Pod) {
	w.aligned(ctx, t, pods)
	for _, p := range pods {
		if _, g := w.given(ctx, t, p.Name); len(g.holdings) != 2 {
			t.Errorf("%d containers of pod %s hold something, want the model and its proxy", len(g.holdings), p.Name)
		}
	}
}

func batch(ctx context.Context, t *testing.T, w *world, pods []*v1.Pod) {
	w.create(ctx, t, pods...)
	all, err := w.pods.Until(ctx, workload.Settled(len(pods)))
	if err != nil {
		t.Fatal(err)
	}
	var run, pend []*v1.Pod
	for _, p := range all {
		switch fate, why := workload.FateOf(p); fate {
		case workload.Running:
			run = append(run, p)
			w.oneNUMANode(ctx, t, p)
		default:
			pend = append(pend, p)
			contains(t, "pod "+p.Name, why, "cannot align")
		}
	}
	// Two on each machine of two NUMA nodes with 54 CPUs, and four on the one of two with 110.
	if len(run) != 8 || len(pend) != 2 {
		t.Fatalf("%d tasks run and %d wait, want 8 and 2", len(run), len(pend))
	}
	w.ends(ctx, t, run[0].Name)
	_, err = w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return len(pods) == 9 && 8 == len(slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool {
			f, _ := workload.FateOf(p)
			return f != workload.Running
		}))
	})
	if err != nil {
		t.Fatalf("no task takes the place of one that ended: %v", err)
	}
}

func database(ctx context.Context, t *testing.T, w *world, pods []*v1.Pod) {
	w.aligned(ctx, t, pods)
	nodes := map[string]bool{}
	for _, p := range pods {
		node, _ := w.given(ctx, t, p.Name)
		nodes[node] = true
	}
	if len(nodes) != 3 {
		t.Errorf("three replicas are on %d nodes", len(nodes))
	}
	w.ends(ctx, t, pods[1].Name)
	w.aligned(ctx, t, pods[1:2])
}
