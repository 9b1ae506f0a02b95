package coarse_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/coarse"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

// unevenZones are the zones of scheduler-plugins' tests of preemption: there, only one kind of cache and one kind of
// report have a pod evicted.
const unevenZones = "4/4Gi 2/2Gi"

// Whatever the source of a node's data, exactly the pod in the way is evicted.
var preemptionCases = []dynamic{
	// No report ever comes: the data are the node's first one and predictions.
	{name: "unreported", policy: single, nodes: map[string]string{"unreported-a": unevenZones},
		run: func(t *testing.T, w *world) {
			w.pod(t, "unreported", "small", "4/4Gi", priority("low"))
			w.runs(t, "small")
			w.pod(t, "unreported", "great", "4/4Gi", priority("high"))
			w.runs(t, "great")
			w.gone(t, "small")
		}},
	// The report has amounts, but not their holders.
	{name: "unsigned", policy: single, nodes: map[string]string{"unsigned-a": unevenZones},
		run: func(t *testing.T, w *world) {
			w.pod(t, "unsigned", "small", "4/4Gi", priority("low"))
			w.runs(t, "small")
			w.report(t, coarse.Topology("unsigned-a", single, "0:4/0:4Gi 2/2Gi"))
			w.knows(t, "unsigned-a", counted("small"))
			w.pod(t, "unsigned", "great", "4/4Gi", priority("high"))
			w.runs(t, "great")
			w.gone(t, "small")
		}},
	{name: "lower", policy: single, nodes: map[string]string{"lower-a": unevenZones},
		run: func(t *testing.T, w *world) {
			w.pod(t, "lower", "first", "4/4Gi", priority("high"))
			w.runs(t, "first")
			w.pod(t, "lower", "second", "4/4Gi", priority("low"))
			w.waits(t, "second", "preemption: 0/")
			w.pod(t, "lower", "third", "4/4Gi", priority("high"))
			w.waits(t, "third", "preemption: 0/")
			w.runs(t, "first")
		}},
	// Amounts without a known pod: no pod is evicted for resources that no pod can return.
	{name: "foreign-amounts", policy: single, nodes: map[string]string{"foreign-amounts-a": "0:4/0:4Gi 2/2Gi"},
		run: func(t *testing.T, w *world) {
			w.pod(t, "foreign-amounts", "beside", "2/2Gi", priority("low"))
			w.runs(t, "beside")
			w.pod(t, "foreign-amounts", "great", "4/4Gi", priority("high"))
			w.waits(t, "great", "preemption: 0/")
			w.runs(t, "beside")
		}},
	// Pods of three priorities on two NUMA nodes: the lowest one in the way is evicted.
	{name: "mixed", policy: single, nodes: map[string]string{"mixed-a": "8/8Gi 8/8Gi"},
		run: func(t *testing.T, w *world) {
			for _, p := range []struct{ name, class, what string }{{"medium", "medium", "6/4Gi"}, {"low", "low", "5/4Gi"},
				{"top", "high", "2/1Gi"}, {"little", "low", "2/1Gi"}} {
				w.pod(t, "mixed", p.name, p.what, priority(p.class))
				w.runs(t, p.name)
			}
			w.pod(t, "mixed", "great", "5/4Gi", priority("high"))
			w.runs(t, "great")
			w.gone(t, "low")
			for _, name := range []string{"medium", "top", "little"} {
				w.runs(t, name)
			}
		}},
	// kube-scheduler spares the one that has run longest, and evicts two instead.
	{name: "fewest", policy: single, nodes: map[string]string{"fewest-a": "8/8Gi 8/8Gi"},
		run: func(t *testing.T, w *world) {
			for _, p := range []struct{ name, what string }{{"large", "7/4Gi"}, {"one", "4/2Gi"}, {"two", "4/2Gi"}} {
				w.pod(t, "fewest", p.name, p.what, priority("low"))
				w.runs(t, p.name)
			}
			w.report(t, coarse.Signed(coarse.Topology("fewest-a", single, "1:8/4Gi:8Gi 0:8/4Gi:8Gi"), "large", "one", "two"))
			w.knows(t, "fewest-a", counted("two"))
			w.pod(t, "fewest", "great", "8/4Gi", priority("high"))
			w.runs(t, "great")
			w.gone(t, "large")
			w.runs(t, "one")
			w.runs(t, "two")
		}},
	{name: "devices-held", policy: single, nodes: map[string]string{"devices-held-a": "8/8Gi/gpu2 8/8Gi/gpu2"},
		run: func(t *testing.T, w *world) {
			for _, p := range []struct{ name, class, what string }{{"holder", "low", "2/1Gi/gpu2"}, {"computes", "low", "4/1Gi"},
				{"other", "medium", "2/1Gi/gpu2"}} {
				w.pod(t, "devices-held", p.name, p.what, priority(p.class))
				w.runs(t, p.name)
			}
			w.pod(t, "devices-held", "great", "2/1Gi/gpu1", priority("high"))
			w.runs(t, "great")
			w.gone(t, "holder")
			w.runs(t, "computes")
			w.runs(t, "other")
		}},
}

// A scheduler that has started has the pods on a coarse node, but not their NUMA nodes. It evicts the pods that must be
// in the way according to the amounts.
func TestPreemptionAfterARestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := cluster(ctx, t, coarse.Start)
	w := &world{Cluster: c, ctx: ctx}
	w.priorities(t)
	w.node(t, "restart", "restart-a")
	bound := func(p *v1.Pod) { p.Spec.NodeName, p.Spec.NodeSelector = "restart-a", nil }
	for _, p := range []struct{ name, class, what string }{{"small", "low", "3/3Gi"}, {"other", "low", "2/2Gi"}} {
		w.pod(t, "restart", p.name, p.what, priority(p.class), bound)
		w.runs(t, p.name)
	}
	w.report(t, coarse.Signed(coarse.Topology("restart-a", single, "1:4/1Gi:4Gi 1:3/1Gi:3Gi"), "small", "other"))
	if err := c.Schedule(scheduler.Tenon); err != nil {
		t.Fatal(err)
	}
	w.knows(t, "restart-a", func(n *state.Node) bool {
		return n != nil && n.Quality == state.Estimated &&
			len(n.Entries) > 0
	})
	// Only "small" can have returned 3 CPUs to one NUMA node.
	w.pod(t, "restart", "great", "4/4Gi", priority("high"))
	w.runs(t, "great")
	w.gone(t, "small")
	w.runs(t, "other")
}
