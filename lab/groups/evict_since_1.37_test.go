//go:build !upto1.36

package groups_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A gang of high priority that fits nowhere evicts the pods of the lowest priority that are in its way, on whatever
// nodes, and no others. All its pods run then.
func TestAGangEvictsTheCheapestPods(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	_, client, pods := start3(ctx, t)
	held := group{name: "held"}
	for i, cpus := range []int{20, 18, 20, 18, 20, 18} {
		held.add(cpus, "abc"[i/2], []string{"mid", "low", "mid", "mid", "low", "mid"}[i])
	}
	held.fill(ctx, t, client, pods)
	g := group{name: "gang", need: 4, rank: "high"}
	for _, cpus := range []int{12, 25, 11, 25} {
		g.add(cpus, 0, g.rank)
	}
	g.evicts(ctx, t, client, pods, "held-0", "held-2", "held-3", "held-5")
}

// The nodes of a gang have to be in one rack. It goes to the one where the pods in its way are of lower priority: they
// belong to a group that ends as a whole, so that a pod of it ends in the other rack as well.
func TestAGangEvictsAGroupOfTheCheapestRack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	_, client, pods := start3(ctx, t)
	for node, rack := range map[string]string{"a": "one", "b": "two", "c": "two"} {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"rack":%q}}}`, rack)
		if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	whole := group{name: "whole", need: 3, rank: "low", ends: true}
	whole.add(20, 'a', "low")
	whole.add(20, 'a', "low")
	whole.add(2, 'b', "low")
	whole.join()
	whole.create(ctx, t, client)
	if _, err := pods.Until(ctx, whole.runs); err != nil {
		t.Fatal(err)
	}
	held := group{name: "held"}
	for i := range 4 {
		held.add(18, "bc"[i/2], "mid")
	}
	held.fill(ctx, t, client, pods)
	g := group{name: "gang", need: 2, rank: "high", rack: "rack"}
	g.add(25, 0, g.rank)
	g.add(25, 0, g.rank)
	g.evicts(ctx, t, client, pods, "held-0", "held-1", "held-2", "held-3")
}

// add adds a pod for a node, or for any node if node is 0.
func (g *group) add(cpus int, node byte, class string) {
	p := ofCPUs(fmt.Sprint(g.name, "-", len(g.pods)), cpus)
	if p.Spec.PriorityClassName = class; node != 0 {
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: string(node)}
	}
	g.pods = append(g.pods, p)
}

// join makes the pods a gang.
func (g *group) join() {
	for _, p := range g.pods {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g.name}
	}
}

// fill creates the pods without a group, and waits until they run.
func (g *group) fill(ctx context.Context, t *testing.T, client kubernetes.Interface, pods *workload.Watch) {
	t.Helper()
	for _, p := range g.pods {
		if err := workload.Create(ctx, client, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pods.Until(ctx, g.runs); err != nil {
		t.Fatal(err)
	}
}

// evicts creates a gang, and fails the test unless all its pods run, and of all others exactly want are left.
func (g *group) evicts(ctx context.Context, t *testing.T, client kubernetes.Interface, pods *workload.Watch,
	want ...string) {
	t.Helper()
	g.join()
	g.create(ctx, t, client)
	all, err := pods.Until(ctx, g.runs)
	if err != nil {
		describe(t, map[string]group{g.name: *g}, all)
		t.Fatal(err)
	}
	var left []string
	for _, p := range all {
		if !strings.HasPrefix(p.Name, g.name+"-") && p.DeletionTimestamp == nil {
			left = append(left, p.Name)
		}
	}
	slices.Sort(left)
	if !slices.Equal(left, want) {
		t.Errorf("pods %v are left, want %v", left, want)
	}
}

// start3 starts a cluster of three nodes with the priority classes low, mid and high.
func start3(ctx context.Context, t *testing.T) (*scheduler.Running, kubernetes.Interface, *workload.Watch) {
	t.Helper()
	s, client, pods := startRunning(ctx, t, scheduler.Tenon, nil)
	for name, value := range map[string]int32{"low": 1, "mid": 5, "high": 9} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s, client, pods
}
