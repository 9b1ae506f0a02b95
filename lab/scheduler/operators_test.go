package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/cluster/manifest"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

const operatorsDir = "../../examples/operators"

// The pods that operators make of the examples run on the machines that docs/howto/workloads.md names: containers with
// whole CPUs get exclusive ones, and pods that demand one NUMA node are on one. The lab has no operators, so the test
// creates the pods itself.
func TestPodsOfOperatorsGetWhatTheyAskFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{Machines: os.DirFS(operatorsDir + "/machines"), Nodes: []lab.Node{
		{Name: "gpus", Machine: "gpu-8"}, {Name: "cpus", Machine: "xeon-2s"}, {Name: "vms", Machine: "kubevirt"},
		{Name: "slurm-0", Machine: "slurm"}, {Name: "slurm-1", Machine: "slurm"}}}, scheduler.Tenon+scheduler.Second)
	files, err := filepath.Glob(operatorsDir + "/*.yaml")
	if err != nil || len(files) != 7 {
		t.Fatalf("%d examples, %v; want 7", len(files), err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		if name == "virtualmachine.yaml" { // virt-launcher.yaml has its pod
			continue
		}
		t.Run(name, func(t *testing.T) {
			pods := operatorsPods(t, path)
			w.create(ctx, t, pods...)
			for _, p := range pods {
				w.getsWhatItAsksFor(ctx, t, p)
			}
			w.clearsUnrefused(ctx, t)
		})
	}
	w.seen.check(t)
}

// waitGCSReady returns the init container that KubeRay adds to workers (ray-operator/controllers/ray/common/pod.go).
func waitGCSReady() v1.Container {
	small := v1.ResourceList{"cpu": resource.MustParse("200m"), "memory": resource.MustParse("256Mi")}
	return v1.Container{Name: "wait-gcs-ready", Image: "rayproject/ray:2.52.0",
		Resources: v1.ResourceRequirements{Limits: small, Requests: small}}
}

// operatorsPods returns the pods of all objects of a file, with a grace period of 0. Workers of Ray get the container
// that their operator adds.
func operatorsPods(t *testing.T, path string) (out []*v1.Pod) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := manifest.Read(text)
	if err != nil || len(f.Unjudged)+len(f.Left) > 0 {
		t.Fatalf("%v, unjudged: %q %q", err, f.Unjudged, f.Left)
	}
	for i, tpl := range f.Templates {
		for j := range tpl.Count {
			p := tpl.Pod.DeepCopy()
			p.Name, p.GenerateName = fmt.Sprintf("%s-%d-%d", strings.Trim(tpl.Name, "-"), i, j), ""
			p.Namespace, p.Spec.TerminationGracePeriodSeconds = metav1.NamespaceDefault, ptr.To[int64](0)
			if tpl.Kind == "RayCluster" && p.Spec.Containers[0].Name == "ray-worker" {
				p.Spec.InitContainers = append(p.Spec.InitContainers, waitGCSReady())
			}
			out = append(out, p)
		}
	}
	return out
}

// getsWhatItAsksFor fails the test unless each container with whole CPUs holds all that it requests, and the pod is on
// one NUMA node if it demands that.
func (w *world) getsWhatItAsksFor(ctx context.Context, t *testing.T, pod *v1.Pod) {
	t.Helper()
	node, g := w.given(ctx, t, pod.Name)
	on := place.Verdict{Holdings: g.holdings}.NUMAs(g.machine)
	if pod.Annotations["tenon.sh/numa-policy"] == "single-numa-node" && on.Len() != 1 {
		t.Errorf("pod %s holds pieces of %d NUMA nodes of node %s, want one", pod.Name, on.Len(), node)
	}
	exclusive := 0
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		cpus := c.Resources.Limits.Cpu()
		if cpus.MilliValue()%1000 != 0 {
			continue
		}
		exclusive++
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
	if exclusive == 0 && !strings.Contains(pod.Name, "launcher") {
		t.Errorf("pod %s has no container with whole CPUs", pod.Name)
	}
}
