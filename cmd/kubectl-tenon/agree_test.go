package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

var agreeSeed = flag.Uint64("agree.seed", 0, "seed of TestExplainSimulateAndTheSchedulerAgree; 0: a new one")

const agreePods = 16

// On random clusters, explain, simulate and the scheduler agree on a pod: the scheduler chooses one of the nodes that
// explain names, and none if explain names none. A gate keeps the scheduler from each pod while explain and simulate
// run.
func TestExplainSimulateAndTheSchedulerAgree(t *testing.T) {
	seed := *agreeSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	t.Logf("-agree.seed=%d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	a := newAgreement(ctx, t, seed)
	placed, refused := 0, 0
	for i := range agreePods {
		if a.ask(ctx, t, a.draw(fmt.Sprintf("p-%d", i))) {
			placed++
		} else {
			refused++
		}
	}
	if placed == 0 || refused == 0 {
		t.Errorf("%d pods were placed and %d found no node: want some of both", placed, refused)
	}
}

// agreement is a cluster on which pods are explained, simulated and scheduled.
type agreement struct {
	*lab.Cluster
	user     kubernetes.Interface
	watch    *workload.Watch
	r        *rand.Rand
	reported int // pods that the nodes must have reported
}

func newAgreement(ctx context.Context, t *testing.T, seed uint64) *agreement {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	files := fstest.MapFS{}
	var nodes []lab.Node
	for i := range 3 {
		name := string(rune('a' + i))
		policy := []string{"single-numa-node", "single-numa-node", "restricted", "best-effort"}[r.IntN(4)]
		files[name+".txt"] = &fstest.MapFile{Data: []byte(machine)}
		files[name+".yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(config, "single-numa-node", policy, 1))}
		nodes = append(nodes, lab.Node{Name: name, Machine: name})
	}
	c, err := lab.Start(ctx, lab.Config{Nodes: nodes, Machines: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	a := &agreement{Cluster: c, user: kubernetes.NewForConfigOrDie(c.RESTConfig()), r: r}
	for i, n := range nodes {
		a.mark(ctx, t, n.Name, i == 0)
	}
	s, err := scheduler.Start(c.Dir, c.SchedulerKubeconfig, scheduler.Tenon, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if a.watch, err = workload.Follow(ctx, a.user); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.watch.Stop)
	return a
}

// mark gives a node a label before any scheduler lists it, and perhaps a taint or a cordon unless it is open to all.
func (a *agreement) mark(ctx context.Context, t *testing.T, node string, open bool) {
	t.Helper()
	spec := map[string]any{}
	switch n := a.r.IntN(5); {
	case n == 0 && !open:
		spec["taints"] = []map[string]string{{"key": "gpu", "value": "yes", "effect": "NoSchedule"}}
	case n == 1 && !open:
		spec["unschedulable"] = true
	}
	labels := map[string]string{"zone": []string{"x", "y"}[a.r.IntN(2)]}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	nodes := a.user.CoreV1().Nodes()
	if _, err := nodes.Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// draw makes a pod.
func (a *agreement) draw(name string) *v1.Pod {
	r := a.r
	amounts := workload.Amounts{"cpu": fmt.Sprint(1 + r.IntN(16)), "memory": fmt.Sprint(1+r.IntN(12)) + "Gi"}
	if r.IntN(3) == 0 {
		amounts["acme.com/nic"] = fmt.Sprint(1 + r.IntN(3))
	}
	p := workload.Pod(name, workload.Guaranteed("c", amounts))
	if r.IntN(4) == 0 {
		p.Spec.Containers = append(p.Spec.Containers, workload.Guaranteed("d", workload.Amounts{"cpu": "2", "memory": "1Gi"}))
	}
	if r.IntN(3) == 0 {
		p.Spec.NodeSelector = map[string]string{"zone": []string{"x", "y", "z"}[r.IntN(3)]}
	}
	if r.IntN(3) == 0 {
		p.Spec.Tolerations = []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}
	}
	if r.IntN(4) == 0 {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
	p.Labels = map[string]string{"app": []string{"x", "y"}[r.IntN(2)]}
	if r.IntN(4) == 0 {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}}}
	}
	p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "tenon.sh/asked"}}
	return p
}

// ask explains, simulates and schedules a pod, and reports whether it was placed.
func (a *agreement) ask(ctx context.Context, t *testing.T, p *v1.Pod) bool {
	t.Helper()
	if err := workload.Create(ctx, a.user, p); err != nil {
		t.Fatal(err)
	}
	named := strings.Fields(strings.ReplaceAll(ok(ctx, t, a.Cluster, "explain", "pod", p.Name, "-o", "name"), "node/", ""))
	if on := a.simulated(ctx, t, p); on == "" && len(named) > 0 || on != "" && !slices.Contains(named, on) {
		t.Errorf("pod %s: explain names %q, simulate %q:\n%s", p.Name, named, on, a.why(ctx, t, p))
	}
	gates := []byte(`[{"op": "remove", "path": "/spec/schedulingGates"}]`)
	_, err := a.user.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.JSONPatchType, gates, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := a.settled(ctx, t, p, len(named) > 0)
	switch fate, why := workload.FateOf(got); {
	case fate == workload.Refused:
		t.Errorf("pod %s was refused by node %s: %s", p.Name, got.Spec.NodeName, why)
	case got.Spec.NodeName != "" && !slices.Contains(named, got.Spec.NodeName):
		t.Errorf("pod %s is on node %s, explain named %q:\n%s", p.Name, got.Spec.NodeName, named, a.why(ctx, t, p))
	}
	if got.Spec.NodeName == "" {
		if err := a.user.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		return false
	}
	a.reported++
	reported(ctx, t, a.Cluster, a.reported)
	return true
}

func (a *agreement) why(ctx context.Context, t *testing.T, p *v1.Pod) string {
	return ok(ctx, t, a.Cluster, "explain", "pod", p.Name)
}

// settled waits for the result that explain predicts: a node, or the refusal of the scheduler.
func (a *agreement) settled(ctx context.Context, t *testing.T, p *v1.Pod, fits bool) (got *v1.Pod) {
	t.Helper()
	_, err := a.watch.Until(ctx, func(pods []*v1.Pod) bool {
		i := slices.IndexFunc(pods, func(x *v1.Pod) bool { return x.Name == p.Name })
		if i < 0 {
			return false
		}
		got = pods[i]
		fate, _ := workload.FateOf(got)
		return fate == workload.Running || fate == workload.Refused || fate == workload.Pending && !fits
	})
	if err != nil {
		t.Fatalf("pod %s, of which explain says that it fits: %v: %v\n%s", p.Name, fits, err, a.why(ctx, t, p))
	}
	return got
}

// simulated returns the node on which simulate places the pod.
func (a *agreement) simulated(ctx context.Context, t *testing.T, p *v1.Pod) string {
	t.Helper()
	twin := p.DeepCopy()
	twin.Name, twin.TypeMeta = p.Name+"-twin", metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	twin.Spec.SchedulingGates = nil
	text, err := yaml.Marshal(twin)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := run(ctx, a.Cluster, "simulate", "-f", file, "-o", "json")
	if code == cli.ExitError {
		t.Fatalf("simulate: %s", errs)
	}
	var doc struct {
		Rounds []struct {
			Workloads []struct{ Placements []struct{ Node string } }
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	for _, x := range doc.Rounds[0].Workloads[0].Placements {
		return x.Node
	}
	return ""
}
