package coarse_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	dynamicclient "k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/coarse"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

// started returns a separate cluster with a scheduler, which finds the earlier objects.
func started(t *testing.T, start func(context.Context, string) (*coarse.Cluster, error), profiles string,
	before ...func(*world)) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := cluster(ctx, t, start)
	w := &world{Cluster: c, ctx: ctx}
	for _, do := range before {
		do(w)
	}
	if err := c.Schedule(profiles); err != nil {
		t.Fatal(err)
	}
	return w
}

// A pod that ran before the scheduler keeps the CPUs of its init container like any other.
func TestLeftoversOfEarlierPods(t *testing.T) {
	w := started(t, coarse.Start, scheduler.Tenon, func(w *world) {
		w.node(t, "before", "before-a")
		w.pod(t, "before", "one", "init:16/4Gi 4/4Gi", func(p *v1.Pod) {
			p.Spec.NodeName, p.Spec.NodeSelector = "before-a",
				nil
		})
		w.runs(t, "one")
		w.report(t, coarse.Signed(coarse.Topology("before-a", single, "0:32/60Gi 28:32/56Gi:60Gi"), "one"))
	})
	w.pod(t, "before", "two", "20/4Gi")
	w.waits(t, "two", noContainer)
	w.pod(t, "before", "three", "16/4Gi")
	w.runs(t, "three")
	w.ends(t, "one")
	w.report(t, coarse.Signed(coarse.Topology("before-a", single, "32/60Gi 16:32/56Gi:60Gi"), "three"))
	w.runs(t, "two")
}

// NodeResourceTopology may be installed, removed and installed again while the scheduler runs. Reports wake pods
// nevertheless.
func TestTheDefinitionComesLate(t *testing.T) {
	w := started(t, coarse.StartBare, scheduler.Tenon)
	w.node(t, "late", "late-a")
	w.pod(t, "late", "one", "4/4Gi")
	w.waits(t, "one", "node has no layout")
	define := func() {
		t.Helper()
		if err := w.Define(w.ctx, crd.NodeResourceTopology()); err != nil {
			t.Fatal(err)
		}
	}
	define()
	w.report(t, coarse.Topology("late-a", single, "4:8/32Gi 2:8/32Gi"))
	w.runs(t, "one")
	w.pod(t, "late", "two", "4/4Gi")
	w.waits(t, "two", noContainer)
	w.report(t, coarse.Signed(coarse.Topology("late-a", single, "0:8/28Gi:32Gi 4:8/32Gi"), "one"))
	w.runs(t, "two")
	w.pod(t, "late", "three", "4/4Gi")
	w.waits(t, "three", noContainer)
	if err := w.Undefine(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.knows(t, "late-a", func(n *state.Node) bool { return n == nil })
	w.ends(t, "one")
	define()
	w.report(t, coarse.Signed(coarse.Topology("late-a", single, "4:8/32Gi 0:8/28Gi:32Gi"), "two"))
	w.runs(t, "three")
	w.knows(t, "late-a", func(n *state.Node) bool { return n != nil && n.Quality == state.Estimated })
}

// numatopologies is a definition of the kind that Volcano's resource-exporter writes.
const numatopologies = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: numatopologies.nodeinfo.volcano.sh}
spec:
  group: nodeinfo.volcano.sh
  scope: Cluster
  names: {kind: Numatopology, plural: numatopologies, singular: numatopology, listKind: NumatopologyList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// Volcano may be installed while the scheduler runs: what its exporter writes wakes pods, like any report.
func TestVolcanosDefinitionComesLate(t *testing.T) {
	w := started(t, coarse.StartBare, scheduler.Tenon)
	w.node(t, "late", "late-a")
	w.pod(t, "late", "one", "4/4Gi")
	w.waits(t, "one", "node has no layout")
	if err := w.Define(w.ctx, []byte(numatopologies)); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamicclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	detail := map[string]any{}
	for cpu := range 16 {
		detail[strconv.Itoa(cpu)] = map[string]any{"core": int64(cpu), "socket": int64(cpu / 8), "numa": int64(cpu / 8)}
	}
	write := func(free string) {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "nodeinfo.volcano.sh/v1alpha1",
			"kind": nrt.Numatopology, "metadata": map[string]any{"name": "late-a"}, "spec": map[string]any{
				"policies":  map[string]any{"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
				"numares":   map[string]any{"cpu": map[string]any{"allocatable": free, "capacity": int64(16)}},
				"cpuDetail": detail}}}
		_, err := client.Resource(nrt.Numatopologies()).Apply(w.ctx, "late-a", o,
			metav1.ApplyOptions{FieldManager: "exporter"})
		if err != nil {
			t.Fatal(err)
		}
	}
	write("1-2,8-10")
	w.knows(t, "late-a", func(n *state.Node) bool {
		return n != nil && n.Quality == state.Estimated && n.From == nrt.Numatopology
	})
	w.pod(t, "late", "two", "4/4Gi")
	w.waits(t, "two", noContainer)
	write("1-2,8-15")
	w.runs(t, "one")
	w.runs(t, "two")
}

// A node whose NodeResourceTopology or layout is deleted is unknown: if the profile accepts unknown nodes, waiting pods
// go there. When the object returns, it counts again.
func TestTheReportOfANodeIsDeletedAndReturns(t *testing.T) {
	w := started(t, coarse.Start, strings.Replace(scheduler.Tenon, "Refuse", "Allow", 1))
	w.node(t, "gone", "gone-a")
	full := coarse.Topology("gone-a", single, "0:8/32Gi 0:8/32Gi")
	w.report(t, full)
	w.knows(t, "gone-a", func(n *state.Node) bool { return n != nil })
	w.pod(t, "gone", "one", "4/4Gi")
	w.waits(t, "one", noContainer)
	if err := w.Topologies.Delete(w.ctx, "gone-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.runs(t, "one")
	w.knows(t, "gone-a", func(n *state.Node) bool { return n == nil })

	w.report(t, full) // created again
	w.knows(t, "gone-a", func(n *state.Node) bool { return n != nil && n.Quality == state.Estimated })
	w.pod(t, "gone", "two", "4/4Gi")
	w.waits(t, "two", noContainer)
	layout := w.layout(t, "gone-a", "numa 0 cpus 0-2 memory 8Gi\nnuma 1 socket 1 cpus 3-5 memory 8Gi")
	w.knows(t, "gone-a", func(n *state.Node) bool { return n != nil && n.Quality == state.Exact })
	// The layout takes precedence.
	w.report(t, coarse.Topology("gone-a", single, "4:8/28Gi:32Gi 8/32Gi"))
	w.waits(t, "two", "wants 4 cpu")
	layout()
	w.runs(t, "two") // according to the NodeResourceTopology
	w.knows(t, "gone-a", func(n *state.Node) bool { return n != nil && n.Quality == state.Estimated })
	w.layout(t, "gone-a", "numa 0 cpus 0-7 memory 8Gi\nnuma 1 socket 1 cpus 8-15 memory 8Gi")
	w.knows(t, "gone-a", func(n *state.Node) bool { return n != nil && n.Quality == state.Exact })
}

// layout publishes the layout of a node, and returns a function that removes it.
func (w *world) layout(t *testing.T, node, machine string) (remove func()) {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}
	if _, err := w.Layouts.Apply(w.ctx, v1alpha1.FromCore(node, m, r, nil, nil)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := w.Layouts.Delete(w.ctx, node, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
