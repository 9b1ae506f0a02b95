package coarse_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/coarse"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// world is the cluster, and the context that bounds the test.
type world struct {
	*coarse.Cluster
	ctx context.Context
}

// caseLabel keeps the pods of a case on its nodes.
const caseLabel = "case"

// plain is a case in which all data exists before the pod is created.
type plain struct {
	name, policy string
	// n1 and n2 are the zones of its nodes, pod is the pod; see package coarse.
	n1, n2, pod string
	// strategy is the scoring strategy that the pod requests, or "".
	strategy string
	// want is the node, "n1" or "n2", "any" of them, or a part of the reason why the pod waits.
	want string
}

// single is the default policy of nodes.
const single = "single-numa-node/container"

// cluster starts a cluster of nodes without kubelets, which ends with the test.
func cluster(ctx context.Context, t *testing.T, start func(context.Context, string) (*coarse.Cluster,
	error)) *coarse.Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "coarse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := start(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// All initial objects are made before the scheduler starts, so that every pod meets the nodes of its case in their
// initial state.
func TestNodesWithOnlyATopology(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := cluster(ctx, t, coarse.Start)
	w := &world{Cluster: c, ctx: ctx}
	for i, p := range plainCases() {
		w.prepare(t, i, p)
	}
	cases := slices.Concat(dynamicCases, preemptionCases)
	for _, d := range cases {
		for node, zones := range d.nodes {
			w.node(t, d.name, node)
			if zones != "" {
				w.report(t, coarse.Topology(node, d.policy, zones))
			}
		}
	}
	w.priorities(t)
	if err := c.Schedule(scheduler.Tenon); err != nil {
		t.Fatal(err)
	}
	for i, p := range plainCases() {
		t.Run(p.name, func(t *testing.T) { w.during(ctx, t).check(t, i, p) })
	}
	for _, d := range cases {
		t.Run(d.name, func(t *testing.T) { d.run(t, w.during(ctx, t)) })
	}
}

// caseTimeout bounds a case; results take a fraction of a second on a computer that has nothing else to do.
const caseTimeout = 30 * time.Second

// during returns the world of one case, whose pods are removed at its end.
func (w *world) during(ctx context.Context, t *testing.T) *world {
	mine, cancel := context.WithTimeout(ctx, caseTimeout)
	t.Cleanup(func() {
		cancel()
		w.clear(t)
	})
	return &world{Cluster: w.Cluster, ctx: mine}
}

// prepare makes the nodes of a case.
func (w *world) prepare(t *testing.T, i int, p plain) {
	t.Helper()
	if p.policy == "" {
		p.policy = single
	}
	for _, n := range []struct{ name, zones string }{{"n1", p.n1}, {"n2", p.n2}} {
		name := fmt.Sprintf("%s-%d", n.name, i)
		w.node(t, fmt.Sprint(i), name)
		o := coarse.Topology(name, p.policy, n.zones)
		w.report(t, withCosts(o))
	}
}

// withCosts adds the distances of a machine of three NUMA nodes: the first and the last are far apart.
func withCosts(o *v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology {
	matrix := [][]int64{{10, 12, 20}, {12, 10, 12}, {20, 12, 10}}
	if len(o.Zones) != len(matrix) {
		return o
	}
	for i, row := range matrix {
		for k, d := range row {
			o.Zones[i].Costs = append(o.Zones[i].Costs, v1alpha2.CostInfo{Name: o.Zones[k].Name, Value: d})
		}
	}
	return o
}

// check creates the pod of a case, checks its node, and removes it.
func (w *world) check(t *testing.T, i int, p plain) {
	name := fmt.Sprintf("p%d", i)
	w.pod(t, fmt.Sprint(i), name, p.pod, func(pod *v1.Pod) {
		if p.strategy != "" {
			pod.Annotations = map[string]string{"tenon.sh/scoring-strategy": p.strategy}
		}
	})
	switch p.want {
	case "n1", "n2", "any":
		at := w.runs(t, name)
		if at = strings.TrimSuffix(at, fmt.Sprintf("-%d", i)); p.want != "any" && at != p.want {
			t.Errorf("the pod is on %s, want %s", at, p.want)
		}
	default:
		w.waits(t, name, p.want)
	}
}

func (w *world) node(t *testing.T, label, name string) {
	t.Helper()
	has := v1.ResourceList{}
	for r, q := range map[v1.ResourceName]string{"cpu": "64", "memory": "128Gi", "pods": "110", "hugepages-2Mi": "896Mi",
		"vendor.example/nic": "48", "vendor.example/gpu": "8", "ephemeral-storage": "32Gi"} {
		has[r] = resource.MustParse(q)
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{caseLabel: label}},
		Status: v1.NodeStatus{Capacity: has, Allocatable: has}}
	if _, err := w.Client.CoreV1().Nodes().Create(w.ctx, n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) report(t *testing.T, o *v1alpha2.NodeResourceTopology) {
	t.Helper()
	if err := w.Report(w.ctx, o); err != nil {
		t.Fatal(err)
	}
}

// pod creates a pod of containers that may go to the nodes with a label.
func (w *world) pod(t *testing.T, label, name, containers string, change ...func(*v1.Pod)) {
	t.Helper()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: coarse.Containers(containers)}
	p.Spec.NodeSelector = map[string]string{caseLabel: label}
	for _, c := range change {
		c(p)
	}
	if err := workload.Create(w.ctx, w.Client, p); err != nil {
		t.Fatal(err)
	}
}

// runs waits until a pod runs, and returns its node.
func (w *world) runs(t *testing.T, name string) (node string) {
	t.Helper()
	var said string
	_, err := w.Pods.Until(w.ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == name && p.Status.Phase == v1.PodRunning {
				node = p.Spec.NodeName
				return true
			}
			if p.Name == name {
				_, said = workload.FateOf(p)
			}
		}
		return false
	})
	if err != nil {
		t.Fatalf("pod %s does not run: %v: %s", name, err, said)
	}
	return node
}

// waits waits until a pod is unschedulable, for a reason that contains a text.
func (w *world) waits(t *testing.T, name, why string) {
	t.Helper()
	var said string
	var fate workload.Fate
	_, err := w.Pods.Until(w.ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == name {
				fate, said = workload.FateOf(p)
				return fate == workload.Running || fate == workload.Pending && says(said, why)
			}
		}
		return false
	})
	if err != nil || fate == workload.Running {
		t.Fatalf("pod %s is %s (%q), want it to wait and say %q (%v)", name, fate, said, why, err)
	}
}

// says reports whether a pod's message names the reason of its wait: the free resources do not suffice, or the empty
// node's would not.
func says(said, why string) bool {
	who, align := strings.CutPrefix(why, "cannot align ")
	return strings.Contains(said, why) || align && strings.Contains(said, "never on this machine: "+who)
}

// knows waits until the scheduler's data about a node is as wanted, so that the next step uses the last report. The
// node is nil if there is no data.
func (w *world) knows(t *testing.T, node string, want func(*state.Node) bool) {
	t.Helper()
	err := wait.PollUntilContextCancel(w.ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		return want(w.Scheduler.Shared.Book.Snapshot().Node(node)), nil
	})
	if err != nil {
		t.Fatalf("node %s: the scheduler has not heard of it: %v", node, err)
	}
}

// counted returns a condition for knows: the scheduler has an entry of the pod on the node whose requests the node's
// reported amounts already include.
func counted(pod string) func(*state.Node) bool {
	return func(n *state.Node) bool {
		return n != nil && slices.ContainsFunc(n.Entries, func(e state.Entry) bool {
			return e.Pod.Name == pod && e.Source == state.Counted
		})
	}
}

// ends deletes a pod and waits until it is gone.
func (w *world) ends(t *testing.T, name string) {
	t.Helper()
	if err := w.Client.CoreV1().Pods("default").Delete(w.ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.gone(t, name)
}

// gone waits until a pod is gone.
func (w *world) gone(t *testing.T, name string) {
	t.Helper()
	_, err := w.Pods.Until(w.ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if p.Name == name {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Fatalf("pod %s is still there: %v", name, err)
	}
}

func (w *world) clear(t *testing.T) {
	t.Helper()
	if err := w.Pods.Clear(w.ctx, w.Client); err != nil {
		t.Fatal(err)
	}
}

// priorities makes the priority classes low, medium and high.
func (w *world) priorities(t *testing.T) {
	t.Helper()
	for name, value := range map[string]int32{"low": 100, "medium": 500, "high": 1000} {
		pc := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := w.Client.SchedulingV1().PriorityClasses().Create(w.ctx, pc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func priority(name string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.PriorityClassName = name }
}
