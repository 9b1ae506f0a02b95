//go:build !upto1.36

package groups_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// In one rack the free CPUs are spread, so that each pod of a gang would lie on two NUMA nodes. The gang goes to the
// other one each time, although kube-scheduler's own plugin prefers the fuller rack.
func TestAGangGetsTheRackWithFewestNUMANodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, client, pods := startRunning(ctx, t, scheduler.Tenon, nil, "lax-a1", "lax-a2", "lax-b1", "lax-b2")
	held := group{name: "held"}
	for node, amounts := range map[string][]int{
		"lax-a1": {22, 22}, "lax-a2": {22, 22}, "lax-b1": {30, 10}, "lax-b2": {30, 10},
	} {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"rack":%q}}}`, node[:5])
		if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		for i, cpus := range amounts {
			p := ofCPUs(fmt.Sprintf("held-%s-%d", node, i), cpus)
			p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
			if err := workload.Create(ctx, client, p); err != nil {
				t.Fatal(err)
			}
			held.pods = append(held.pods, p)
			if _, err := pods.Until(ctx, held.runs); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 6 {
		hasFree(ctx, t, s, map[string]int{"lax-a1": 16, "lax-a2": 16, "lax-b1": 20, "lax-b2": 20})
		g := racked(fmt.Sprintf("g%d", i))
		g.create(ctx, t, client)
		all, err := pods.Until(ctx, g.runs)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Spec.SchedulingGroup != nil && p.Spec.NodeName[:5] != "lax-b" {
				t.Errorf("pod %s is on %s, where it lies on two NUMA nodes", p.Name, p.Spec.NodeName)
			}
		}
		remove(ctx, t, client, g)
		if _, err := pods.Until(ctx, func(all []*v1.Pod) bool { return len(all) == len(held.pods) }); err != nil {
			t.Fatal(err)
		}
	}
}

// hasFree waits until the scheduler knows for certain that nodes have as many CPUs free. It learns from their reports
// that a gang is gone; between the pods' end and the report, a node is in one of two states.
func hasFree(ctx context.Context, t *testing.T, s *scheduler.Running, want map[string]int) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		snap := s.Shared.Book.Snapshot()
		for name, n := range want {
			if node := snap.Node(name); node == nil || node.Doubtful() != "" || node.Usage.FreeCPUs().Len() != n {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("wait for free CPUs: %v", err)
	}
}

// ofCPUs returns a pod with CPUs of its own.
func ofCPUs(name string, cpus int) *v1.Pod {
	return workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(cpus), "memory": "1Gi"}))
}

// racked returns a gang of two pods of 12 CPUs.
func racked(name string) group {
	g := group{name: name, need: 2, rack: "rack"}
	for i := range 2 {
		p := ofCPUs(fmt.Sprintf("%s-%d", name, i), 12)
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g.name}
		g.pods = append(g.pods, p)
	}
	return g
}
