package coarse_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/coarse"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

const shardLabel = "tenon.sh/shard"

// sharded returns the profile of a scheduler of a shard.
func sharded(name, shard string) string {
	profile := strings.Replace(scheduler.Tenon, "default-scheduler", name, 1)
	return strings.Replace(profile, "unknownNodes: Refuse", fmt.Sprintf("layoutSelector: %s=%s, unknownNodes: Refuse",
		shardLabel, shard), 1)
}

// puts puts a node into a shard, with its layout, as its agent does.
func (w *world) puts(t *testing.T, node, shard string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, shardLabel, shard)
	if _, err := w.Client.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	m, err := topo.ParseMachine("numa 0 cpus 0-7 memory 8Gi\nnuma 1 socket 1 cpus 8-15 memory 8Gi")
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}
	l := v1alpha1.FromCore(node, m, r, nil, nil)
	l.Labels = map[string]string{shardLabel: shard}
	if _, err := w.Layouts.Apply(w.ctx, l); err != nil {
		t.Fatal(err)
	}
}

// follows waits until a scheduler has exactly these nodes.
func (w *world) follows(t *testing.T, s *scheduler.Running, nodes ...string) {
	t.Helper()
	var known []string
	err := wait.PollUntilContextTimeout(w.ctx, caseTimeout/1000, caseTimeout, true, func(context.Context) (bool, error) {
		known = s.Shared.Book.Snapshot().Names()
		return slices.Equal(known, nodes), nil
	})
	if err != nil {
		t.Fatalf("the scheduler knows %v, want %v", known, nodes)
	}
}

// Two schedulers read exactly the objects of their own shards' nodes. A node that is moved to the other shard is taken
// over by the other scheduler, with a pod that waits for it.
func TestShards(t *testing.T) {
	w := started(t, coarse.Start, sharded("default-scheduler", "a"), func(w *world) {
		for node, shard := range map[string]string{"exact-a": "a", "exact-b": "b"} {
			w.node(t, node, node)
			w.puts(t, node, shard)
		}
		for node, shard := range map[string]string{"coarse-a": "a", "coarse-b": "b", "nowhere": ""} {
			w.node(t, node, node)
			o := coarse.Topology(node, single, "4:8/32Gi 2:8/32Gi")
			o.Labels = map[string]string{shardLabel: shard}
			w.report(t, o)
		}
	})
	other, err := w.ScheduleToo(sharded("other", "b"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.follows(t, w.Scheduler, "coarse-a", "exact-a")
	w.follows(t, other, "coarse-b", "exact-b")

	by := func(p *v1.Pod) { p.Spec.SchedulerName = "other" }
	w.pod(t, "exact-a", "one", "4/4Gi")
	w.runs(t, "one")
	w.pod(t, "exact-b", "two", "4/4Gi", by)
	w.runs(t, "two")
	const stranger = "not in this scheduler's shard, tenon.sh/shard="
	w.pod(t, "exact-b", "three", "4/4Gi")
	w.waits(t, "three", stranger)
	holdsNothing := func(p *v1.Pod) { p.Spec.Containers[0].Resources = v1.ResourceRequirements{} }
	w.pod(t, "exact-b", "four", "1/1Gi", holdsNothing)
	w.waits(t, "four", stranger)

	w.puts(t, "exact-b", "a")
	w.follows(t, w.Scheduler, "coarse-a", "exact-a", "exact-b")
	w.follows(t, other, "coarse-b")
	w.runs(t, "three")
	w.runs(t, "four")
	w.knows(t, "exact-b", func(n *state.Node) bool { return len(n.Entries) == 2 }) // two, bound by the other scheduler
	w.pod(t, "exact-b", "five", "4/4Gi", by)
	w.waits(t, "five", stranger)
}
