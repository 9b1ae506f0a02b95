package coarse_test

import (
	"fmt"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/coarse"
	"github.com/tenon-numa/tenon/lab/workload"
)

// dynamic is a case in which pods and reports follow each other.
type dynamic struct {
	name, policy string
	nodes        map[string]string // name -> zones; "" for a node that reports later
	run          func(t *testing.T, w *world)
}

// zonesA and zonesB are the zones of the nodes in the tests from which the first of dynamicCases are.
const (
	zonesA = "30/60Gi 30/62Gi"
	zonesB = "10/14Gi 8/10Gi"
)

// The first cases are from the tests of other schedulers that read NodeResourceTopology; comments call these "others".
// There the expected result is what their caches can do: stranded capacity, or a wait for the next report.
var dynamicCases = []dynamic{
	{name: "burstable", policy: single, nodes: map[string]string{"burstable-a": zonesA, "burstable-b": zonesB},
		run: func(t *testing.T, w *world) {
			w.pod(t, "burstable", "one", "burstable:16/24Gi")
			w.pod(t, "burstable", "two", "burstable:16/24Gi")
			w.runs(t, "one")
			w.runs(t, "two")
		}},
	// Others keep the second one waiting, though two devices are free on the other NUMA node.
	{name: "devices", policy: single, nodes: map[string]string{"devices-a": "30/60Gi/nic0:2 30/62Gi/nic0:2",
		"devices-b": "10/14Gi/nic2 8/10Gi/nic2"},
		run: func(t *testing.T, w *world) {
			w.pod(t, "devices", "one", "-/-/nic2")
			w.pod(t, "devices", "two", "-/-/nic2")
			w.pod(t, "devices", "three", "-/-/nic2")
			w.runs(t, "one")
			w.runs(t, "two")
			w.waits(t, "three", noContainer)
		}},
	// Others keep the second one waiting until a report: whatever NUMA node the first one has, the other has 30.
	{name: "burst", policy: single, nodes: map[string]string{"burst-a": zonesA, "burst-b": zonesB}, run: burst},
	{name: "whole", policy: single, nodes: map[string]string{"whole-a": zonesA}, run: whole},
	{name: "signed", policy: single, nodes: map[string]string{"signed-a": zonesA}, run: fingerprinted},
	{name: "freed", policy: single, nodes: map[string]string{"freed-a": "6:30/48Gi:60Gi 6:30/50Gi:62Gi"}, run: freed},
	{name: "scope", policy: "single-numa-node/pod", nodes: map[string]string{"scope-a": "30/62Gi 30/62Gi"}, run: scope},
	{name: "victim", policy: single, nodes: map[string]string{"victim-a": "4/4Gi 2/2Gi"}, run: preempts},
	{name: "equal", policy: single, nodes: map[string]string{"equal-a": "4/4Gi 2/2Gi"}, run: preemptsNot},

	{name: "late", policy: single, nodes: map[string]string{"late-a": ""}, run: late},
	{name: "again", policy: single, nodes: map[string]string{"again-a": "8/16Gi 4/16Gi"}, run: again},
	{name: "names", policy: single, nodes: map[string]string{"names-a": "16/32Gi/nic8 16/32Gi/gpu8"}, run: namesComeAgain},
	{name: "foreign", policy: single, nodes: map[string]string{"foreign-a": "16/32Gi 16/32Gi"}, run: foreign},
	// Others bind the second pod of 20 CPUs, which the kubelet then refuses.
	{name: "leftover", policy: single, nodes: map[string]string{"leftover-a": "32/60Gi 0:32/60Gi"}, run: leftover},
	{name: "stubborn", policy: single, nodes: map[string]string{coarse.Stubborn + "-a": "16/32Gi 16/32Gi"}, run: refused},
}

func burst(t *testing.T, w *world) {
	w.pod(t, "burst", "one", "16/24Gi")
	w.pod(t, "burst", "two", "16/24Gi")
	w.runs(t, "one")
	w.runs(t, "two")
	w.pod(t, "burst", "three", "16/24Gi")
	w.waits(t, "three", noContainer)
	w.ends(t, "one") // and no report of it
	w.runs(t, "three")
}

func whole(t *testing.T, w *world) {
	w.pod(t, "whole", "one", "30/60Gi")
	w.runs(t, "one")
	w.ends(t, "one")
	w.pod(t, "whole", "two", "16/24Gi")
	w.runs(t, "two")
}

// Others schedule the second pod after the second report. Here it needs none, and the reports in between change
// nothing. The third pod waits for a report of what another pod, the first one, returned.
func fingerprinted(t *testing.T, w *world) {
	w.pod(t, "signed", "one", "24/12Gi")
	w.pod(t, "signed", "two", "24/12Gi")
	w.runs(t, "one")
	w.runs(t, "two")
	w.report(t, coarse.Signed(coarse.Topology("signed-a", single, "6:30/48Gi:60Gi 30/62Gi"), "one"))
	w.pod(t, "signed", "three", "8/12Gi")
	w.waits(t, "three", noContainer)
	w.report(t, coarse.Signed(coarse.Topology("signed-a", single, "6:30/48Gi:60Gi 6:30/50Gi:62Gi"), "one", "two"))
	w.ends(t, "two")
	w.runs(t, "three")
}

// A waiting pod runs after one report that shows enough room.
func freed(t *testing.T, w *world) {
	w.pod(t, "freed", "one", "24/12Gi")
	w.waits(t, "one", noContainer)
	w.report(t, coarse.Topology("freed-a", single, "6:30/48Gi:60Gi 30/62Gi"))
	w.runs(t, "one")
}

// Others need a second report after the one with the change.
func scope(t *testing.T, w *world) {
	w.pod(t, "scope", "one", "24/48Gi 24/48Gi")
	w.waits(t, "one", noPod)
	w.report(t, coarse.Topology("scope-a", single, "30/62Gi 30/62Gi"))
	w.runs(t, "one")
}

// A pod of higher priority evicts a pod of lower priority and gets its NUMA node, also if a report has counted the
// lower one in between.
func preempts(t *testing.T, w *world) {
	w.pod(t, "victim", "small", "4/4Gi", priority("low"))
	w.runs(t, "small")
	w.report(t, coarse.Signed(coarse.Topology("victim-a", single, "0:4/0:4Gi 2/2Gi"), "small"))
	w.knows(t, "victim-a", counted("small"))
	w.pod(t, "victim", "great", "4/4Gi", priority("high"))
	w.runs(t, "great")
	w.gone(t, "small")
}

// No pod is evicted for a pod of the same priority, or for one that would not fit afterwards.
func preemptsNot(t *testing.T, w *world) {
	w.pod(t, "equal", "first", "4/4Gi", priority("low"))
	w.runs(t, "first")
	w.pod(t, "equal", "second", "4/4Gi", priority("low"))
	w.waits(t, "second", "preemption: 0/")
	w.pod(t, "equal", "wide", "5/4Gi", priority("high"))
	w.waits(t, "wide", "preemption: 0/")
	w.runs(t, "first")
}

// A node's report may come late, be malformed, change its NUMA nodes and their ids, and go away.
func late(t *testing.T, w *world) {
	w.pod(t, "late", "one", "4/4Gi")
	w.waits(t, "one", "node has no layout")
	w.report(t, coarse.Topology("late-a", single, ""))
	w.knows(t, "late-a", func(*state.Node) bool { return w.Scheduler.Shared.Feed.TopologyProblem("late-a") != "" })
	w.pod(t, "late", "two", "4/4Gi")
	w.waits(t, "two", `what the node reports is refused: NodeResourceTopology of node "late-a": object has no zone`)
	named := func(zones string, names ...string) *v1alpha2.NodeResourceTopology {
		o := coarse.Topology("late-a", single, zones)
		for i, name := range names {
			o.Zones[i].Name = name
		}
		return o
	}
	w.report(t, named("4:8/32Gi 4:8/32Gi", "node-0", "node-8"))
	w.runs(t, "one")
	w.runs(t, "two")
	w.pod(t, "late", "three", "4/4Gi")
	w.waits(t, "three", noContainer)
	w.report(t, named("8/32Gi 8/32Gi 8/32Gi", "node-3", "node-40", "node-63"))
	w.runs(t, "three")
	if err := w.Topologies.Delete(w.ctx, "late-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.knows(t, "late-a", func(n *state.Node) bool { return n == nil })
	w.pod(t, "late", "four", "9/4Gi") // would not fit, and its reason shows that now
	w.waits(t, "four", "node has no layout")
}

// A pod is deleted and created again under its name between two reports, as StatefulSets do: the fingerprint is the
// same as before.
func again(t *testing.T, w *world) {
	w.pod(t, "again", "web-0", "6/4Gi")
	w.runs(t, "web-0")
	w.report(t, coarse.Signed(coarse.Topology("again-a", single, "2:8/12Gi:16Gi 4/16Gi"), "web-0"))
	w.ends(t, "web-0")
	w.pod(t, "again", "web-0", "6/4Gi")
	w.runs(t, "web-0")
	w.report(t, coarse.Signed(coarse.Topology("again-a", single, "2:8/12Gi:16Gi 4/16Gi"), "web-0"))
	w.pod(t, "again", "beside", "4/4Gi")
	w.runs(t, "beside")
	w.pod(t, "again", "more", "4/4Gi")
	w.waits(t, "more", noContainer)
}

// Names are used again twice while no report arrives. Then one right report arrives, and its exporter has nothing else
// to write. The fingerprint matches the ended pods, too, and the amounts do not.
func namesComeAgain(t *testing.T, w *world) {
	bound := func(p *v1.Pod) { p.Spec.NodeName, p.Spec.NodeSelector = "names-a", nil }
	report := func(zones string, pods ...string) {
		w.report(t, coarse.Signed(coarse.Topology("names-a", single, zones), pods...))
	}
	report("16/32Gi/nic8 16/32Gi/gpu8")
	for round := range 2 {
		w.pod(t, "names", "web-0", "2/2Gi/nic1", bound)
		w.pod(t, "names", "web-1", "4/3Gi/gpu2", bound)
		w.runs(t, "web-0")
		w.runs(t, "web-1")
		w.pod(t, "names", "web-2", "3/3Gi/nic2")
		w.runs(t, "web-2")
		for _, name := range []string{"web-0", "web-1", "web-2"} {
			w.ends(t, name)
		}
		report("13:16/29Gi:32Gi/nic6:8 16/32Gi/gpu8", "web-2")
		w.pod(t, "names", "web-0", "10/20Gi/nic3", bound)
		w.pod(t, "names", "web-1", "9/10Gi/gpu3", bound)
		w.runs(t, "web-0")
		w.runs(t, "web-1")
		report("6:16/12Gi:32Gi/nic5:8 7:16/22Gi:32Gi/gpu5:8", "web-0", "web-1")
		probe := fmt.Sprint("probe", round)
		w.pod(t, "names", probe, "7/20Gi")
		w.runs(t, probe)
		for _, name := range []string{"web-0", "web-1", probe} {
			w.ends(t, name)
		}
	}
}

// Pods that others bind are charged when they are received, and the node stays usable however often their status
// changes.
func foreign(t *testing.T, w *world) {
	bound := func(p *v1.Pod) { p.Spec.NodeName, p.Spec.NodeSelector = "foreign-a", nil }
	w.pod(t, "foreign", "theirs", "12/8Gi", bound)
	w.pod(t, "foreign", "static", "burstable:1/1Gi", bound)
	w.runs(t, "theirs")
	for _, reason := range []string{"Probing", "Ready", "Probing", "Ready"} {
		patch := []byte(`{"status":{"message":"` + reason + `"}}`)
		_, err := w.Client.CoreV1().Pods("default").Patch(w.ctx, "static", types.MergePatchType, patch, metav1.PatchOptions{},
			"status")
		if err != nil {
			t.Fatal(err)
		}
	}
	w.pod(t, "foreign", "one", "16/8Gi")
	w.runs(t, "one")
	w.pod(t, "foreign", "two", "5/8Gi")
	w.waits(t, "two", noContainer)
	w.ends(t, "theirs")
	w.runs(t, "two")
}

// What an init container held and the pod's other container does not use is not free, though no report shows it: CPUs
// until the pod ends, memory until the next container starts, which wakes waiting pods.
func leftover(t *testing.T, w *world) {
	w.pod(t, "leftover", "one", "init:16/40Gi 4/4Gi")
	w.runs(t, "one")
	w.report(t, coarse.Signed(coarse.Topology("leftover-a", single, "28:32/56Gi:60Gi 0:32/60Gi"), "one"))
	w.knows(t, "leftover-a", counted("one"))
	w.pod(t, "leftover", "two", "20/4Gi")
	w.waits(t, "two", noContainer)
	w.pod(t, "leftover", "memory", "2/30Gi")
	w.waits(t, "memory", noContainer)
	began := []byte(
		`{"status":{"containerStatuses":[{"name":"c1","image":"","imageID":"","ready":true,"restartCount":0,"state":{"running":{}}}]}}`)
	if _, err := w.Client.CoreV1().Pods("default").Patch(w.ctx, "one", types.MergePatchType, began, metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatal(err)
	}
	w.runs(t, "memory")
	w.ends(t, "one")
	w.runs(t, "two")
}

// A kubelet that refuses a predicted pod gets no pod of that shape until it has reported again.
func refused(t *testing.T, w *world) {
	w.pod(t, "stubborn", "one", "4/4Gi")
	_, err := w.Pods.Until(w.ctx, func(pods []*v1.Pod) bool {
		return len(pods) == 1 && pods[0].Status.Phase == v1.PodFailed
	})
	if err != nil {
		t.Fatal(err)
	}
	w.knows(t, coarse.Stubborn+"-a", func(n *state.Node) bool { return n != nil && len(n.Refused) > 0 })
	w.pod(t, "stubborn", "next", "4/4Gi")
	w.waits(t, "next", "node refused")
	w.report(t, coarse.Topology(coarse.Stubborn+"-a", single, "15:16/32Gi 15:16/32Gi"))
	_, err = w.Pods.Until(w.ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if f, _ := workload.FateOf(p); f != workload.Refused {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Errorf("the node has reported, and is kept away still: %v", err)
	}
}
