package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/ops/apply"
)

// labNodes changes lab kubelets. On real nodes the pods of package apply do this.
type labNodes struct {
	c   *lab.Cluster
	mu  sync.Mutex
	old map[string]string // configurations that Undo restores
	// changing are the nodes between Begin and Keep or Undo. most is their greatest number at one time.
	changing map[string]bool
	most     int
	// together, if not nil, makes this many nodes wait for each other in Begin.
	together *sync.WaitGroup
}

func (n *labNodes) Begin(ctx context.Context, node string, c apply.Configuration) error {
	if n.together != nil {
		n.together.Done()
		n.together.Wait()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changing[node] = true
	n.most = max(n.most, len(n.changing))
	is := n.c.KubeletYAML(node)
	if _, begun := n.old[node]; !begun {
		n.old[node] = is
	}
	text, err := apply.Merge(n.old[node], c.DropIn)
	if err != nil {
		return err
	}
	return n.restart(ctx, node, text, c.StateFiles)
}

func (n *labNodes) restart(ctx context.Context, node, text string, files []string) error {
	for _, name := range files {
		if err := os.Remove(filepath.Join(n.c.NodeDir(node), name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return n.c.RestartKubelet(ctx, node, text)
}

func (n *labNodes) Keep(_ context.Context, node string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.changing, node)
	delete(n.old, node)
	return nil
}

func (n *labNodes) Undo(ctx context.Context, node string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.changing, node)
	was, begun := n.old[node]
	if !begun {
		return nil
	}
	delete(n.old, node)
	return n.restart(ctx, node, was, []string{"cpu_manager_state", "memory_manager_state"})
}

// configz returns the configuration of a running lab kubelet; it fails where the kubelet has ended.
func (n *labNodes) configz(_ context.Context, node string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.c.NodeErr(node); err != nil {
		return nil, err
	}
	var config any
	if err := yaml.Unmarshal([]byte(n.c.KubeletYAML(node)), &config); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"kubeletconfig": config})
}

// changed is a cluster whose kubelets the tests change.
type changed struct {
	*lab.Cluster
	nodes *labNodes
	by    *apply.Cluster
	user  kubernetes.Interface
}

func TestKubeletsAreChanged(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Config{Apart: true,
		Nodes:    []lab.Node{{Name: "a", Machine: "pair"}, {Name: "b", Machine: "pair"}},
		Machines: fstest.MapFS{"pair.txt": {Data: []byte(machine)}, "pair.yaml": {Data: []byte(config)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	x := &changed{Cluster: c, nodes: &labNodes{c: c, old: map[string]string{}, changing: map[string]bool{}},
		user: kubernetes.NewForConfigOrDie(c.RESTConfig())}
	if x.by, err = apply.New(c.RESTConfig(), x.nodes, x.nodes.configz); err != nil {
		t.Fatal(err)
	}
	t.Run("it says what it will do", func(t *testing.T) { x.announced(ctx, t) })
	t.Run("pods that change nodes", func(t *testing.T) { x.accepted(ctx, t) })
	t.Run("at most one node at a time", func(t *testing.T) { x.atATime(ctx, t, 1) })
	t.Run("two nodes at a time", func(t *testing.T) { x.atATime(ctx, t, 2) })
	t.Run("by the console", func(t *testing.T) { x.served(ctx, t) })
	t.Run("interrupted before each step", func(t *testing.T) { x.interrupted(ctx, t) })
	t.Run("a budget that allows nothing", func(t *testing.T) { x.budget(ctx, t) })
	t.Run("a kubelet that refuses", func(t *testing.T) { x.refused(ctx, t) })
}

// plan plans to change the nodes' policy to the one that they do not have.
func (x *changed) plan(ctx context.Context, t *testing.T) (out document.KubeletPlan) {
	t.Helper()
	layouts, err := client.New(x.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	l, err := layouts.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	to := []string{"--policy", "restricted", "--memory-manager-policy", "None"}
	if l.Rules.TopologyManagerPolicy == "restricted" {
		to = []string{"--policy", "single-numa-node", "--memory-manager-policy", "Static", "--reserved-memory",
			"0:memory=2Gi;1:memory=2Gi"}
	}
	text, stderr, code := run(ctx, x.Cluster, append([]string{"kubelet", "plan", "-o", "json"}, to...)...)
	if err := json.Unmarshal([]byte(text), &out); err != nil || code != 0 || len(out.Nodes) != 2 {
		t.Fatalf("plan: exit code %d, %s, %v", code, stderr, err)
	}
	return out
}

// fill runs a pod on a node. A kubelet that starts counts the CPUs of deleted pods in its checkpoint until it has seen
// its pods once. So fill first runs a pod that holds nothing.
func (x *changed) fill(ctx context.Context, t *testing.T, name, node string) {
	t.Helper()
	x.start(ctx, t, workload.Pod("first-"+name, workload.Burstable("c", nil, nil)), node)
	p := workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": "4", "memory": "2Gi"}))
	app, _, _ := strings.Cut(name, "-")
	p.Labels = map[string]string{"app": app}
	x.start(ctx, t, p, node)
}

// start creates a pod, and returns when it runs on the node.
func (x *changed) start(ctx context.Context, t *testing.T, p *v1.Pod, node string) {
	t.Helper()
	p.Spec.NodeName = node
	if err := workload.Create(ctx, x.user, p); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		seen, err := x.user.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
		if err == nil && seen.Status.Phase == v1.PodFailed {
			err = errors.New(seen.Status.Reason + ": " + seen.Status.Message)
		}
		return err == nil && seen.Status.Phase == v1.PodRunning, err
	})
	if err != nil {
		t.Fatalf("pod %s does not run: %v", p.Name, err)
	}
}

var options = apply.Options{Force: true, EvictWithin: time.Minute, VerifyWithin: 2 * time.Minute}

// apply applies the rest of a plan.
func (x *changed) apply(ctx context.Context, p document.KubeletPlan, o apply.Options) error {
	nodes, err := x.by.Pending(ctx, p, o)
	if err != nil {
		return err
	}
	return x.by.Run(ctx, nodes, o)
}

// rests checks that a change has left nothing on a node, and that its agent reports the rules.
func (x *changed) rests(ctx context.Context, t *testing.T, p document.KubeletPlan, after bool) {
	t.Helper()
	layouts, err := client.New(x.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range p.Nodes {
		l, err := layouts.Get(ctx, want.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rules := want.Before
		if after {
			rules = want.After
		}
		if !apply.SameRules(l.Rules, rules) {
			t.Errorf("node %s has the rules %+v, want %+v", want.Name, l.Rules, rules)
		}
		n, err := x.user.CoreV1().Nodes().Get(ctx, want.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n.Spec.Unschedulable || n.Annotations[apply.Annotation] != "" {
			t.Errorf("node %s: unschedulable %v, annotation %q", want.Name, n.Spec.Unschedulable,
				n.Annotations[apply.Annotation])
		}
	}
}

// announced: the command changes nothing before the user agrees, and nothing where a pod would be lost.
func (x *changed) announced(ctx context.Context, t *testing.T) {
	p := x.plan(ctx, t)
	file := filepath.Join(t.TempDir(), "plan.json")
	text, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := ok(ctx, t, x.Cluster, "kubelet", "apply", file, "--dry-run")
	for _, want := range []string{"+ topologyManagerPolicy: restricted", "1. Node a:", "removed: memory_manager_state",
		"one privileged pod", "systemctl stop kubelet"} {
		if !strings.Contains(words(out), want) {
			t.Errorf("dry run does not say %q:\n%s", want, out)
		}
	}
	checkWidth(t, out)
	if _, stderr, code := run(ctx, x.Cluster, "kubelet", "apply", file); code != cli.ExitNo ||
		!strings.Contains(stderr, "--yes") {
		t.Errorf("without an answer: exit code %d, %s", code, stderr)
	}
	x.fill(ctx, t, "alone", "b")
	if _, stderr, code := run(ctx, x.Cluster, "kubelet", "apply", file, "--yes"); code != cli.ExitError ||
		!strings.Contains(stderr, "alone has no controller") {
		t.Errorf("with a pod that would be lost: exit code %d, %s", code, stderr)
	}
	x.rests(ctx, t, p, false)
}

// accepted: the API server accepts the pod that changes a node. A lab kubelet runs no containers, so the pod does
// nothing.
func (x *changed) accepted(ctx context.Context, t *testing.T) {
	pods, err := apply.NewPods(x.RESTConfig(), apply.PodOptions{Namespace: "default", Image: "lab.invalid/busybox:1",
		Stop: "systemctl stop kubelet", Start: "systemctl start kubelet", KeepWithin: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = pods.Begin(ctx, "a", apply.Configuration{DropIn: "cpuManagerPolicy: none\n",
		StateFiles: []string{"cpu_manager_state"}})
	if err == nil || !strings.Contains(err.Error(), "has not begun within 5s") {
		t.Errorf("a pod that does nothing: %v", err)
	}
	made, err := x.user.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: apply.Annotation})
	if err != nil || len(made.Items) != 1 || made.Items[0].Spec.NodeName != "a" {
		t.Fatalf("%d pods were made, %v", len(made.Items), err)
	}
	name := made.Items[0].Name
	if err := x.user.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := x.user.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Fatalf("pod %s does not end: %v", name, err)
	}
}

// atATime changes both nodes, which have pods.
func (x *changed) atATime(ctx context.Context, t *testing.T, n int) {
	x.fill(ctx, t, "one", "a")
	p := x.plan(ctx, t)
	o := options
	o.MaxUnavailable = n
	x.nodes.most = 0
	if n > 1 {
		x.nodes.together = &sync.WaitGroup{}
		x.nodes.together.Add(n)
	}
	if err := x.apply(ctx, p, o); err != nil {
		t.Fatal(err)
	}
	x.nodes.together = nil
	if x.nodes.most != n {
		t.Errorf("%d nodes changed at the same time, want %d", x.nodes.most, n)
	}
	x.rests(ctx, t, p, true)
	pods, err := x.user.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		t.Errorf("pod %s on node %s was not evicted (deletion %v, phase %s)", p.Name, p.Spec.NodeName, p.DeletionTimestamp,
			p.Status.Phase)
	}
}

// interrupted ends the program before each step in turn. The same plan then continues.
func (x *changed) interrupted(ctx context.Context, t *testing.T) {
	for _, step := range []apply.Step{apply.Cordon, apply.Evict, apply.Change, apply.Verify, apply.Keep, apply.Uncordon} {
		x.fill(ctx, t, "one", "a")
		p := x.plan(ctx, t)
		once, kill := context.WithCancel(ctx)
		o := options
		o.Say = func(node string, r apply.Record) {
			if r.Step == step {
				kill()
			}
		}
		if err := x.apply(once, p, o); !errors.Is(err, context.Canceled) {
			t.Errorf("killed before %s: %v", step, err)
		}
		kill()
		if err := x.apply(ctx, p, options); err != nil {
			t.Errorf("resumed before %s: %v", step, err)
		}
		x.rests(ctx, t, p, true)
	}
}

// budget: a PodDisruptionBudget that allows no eviction stops the change before it begins.
func (x *changed) budget(ctx context.Context, t *testing.T) {
	x.fill(ctx, t, "kept-a", "a")
	x.fill(ctx, t, "kept-b", "b")
	budgets := x.user.PolicyV1().PodDisruptionBudgets("default")
	all := intstr.FromInt32(2)
	b, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &all,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kept"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, CurrentHealthy: 2, DesiredHealthy: 2,
		ExpectedPods: 2}
	if _, err := budgets.UpdateStatus(ctx, b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := x.plan(ctx, t)
	o := options
	o.EvictWithin = time.Nanosecond // the error has the reason however short the time is
	err = x.apply(ctx, p, o)
	if err == nil || !strings.Contains(err.Error(), "default/kept-") ||
		!strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("the change stops with: %v", err)
	}
	x.rests(ctx, t, p, false)
	for _, name := range []string{"kept-a", "kept-b"} {
		if got, err := x.user.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}); err != nil ||
			got.Status.Phase != v1.PodRunning {
			t.Errorf("pod %s, which the budget keeps: %v", name, err)
		}
	}
	if err := budgets.Delete(ctx, "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// refused: a kubelet that does not start with the new configuration gets the old one back, even if the program is
// killed meanwhile. The other node is not changed.
func (x *changed) refused(ctx context.Context, t *testing.T) {
	for _, step := range []apply.Step{"", apply.Undo, apply.Uncordon} {
		p := x.plan(ctx, t)
		for i := range p.Nodes {
			p.Nodes[i].DropIn = "topologyManagerPolicy: restricted\nmemoryManagerPolicy: Static\n" +
				"reservedMemory: [{numaNode: 0, limits: {memory: 1Mi}}]\n" // it has to equal what the kubelet keeps
		}
		o := options
		o.VerifyWithin = 10 * time.Second
		once, kill := context.WithCancel(ctx)
		var begun []string
		o.Say = func(node string, r apply.Record) {
			if r.Step == apply.Change {
				begun = append(begun, node)
			}
			if r.Step == step {
				kill()
			}
		}
		err := x.apply(once, p, o)
		if step != "" && !errors.Is(err, context.Canceled) {
			t.Errorf("killed before %s: %v", step, err)
		}
		if kill(); step != "" {
			err = x.apply(ctx, p, o)
		}
		if err == nil || !strings.Contains(err.Error(), "has its old configuration") {
			t.Errorf("killed before %q: %v", step, err)
		}
		if len(begun) != 1 {
			t.Errorf("killed before %q: nodes %v were begun, want one", step, begun)
		}
		x.rests(ctx, t, p, false)
	}
}
