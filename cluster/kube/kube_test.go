package kube

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/pod/podtest"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// A quantity of a few bytes must not cost more than any other: expanding these takes practically forever.
func TestLacksOfQuantitiesWithWildExponents(t *testing.T) {
	for _, amount := range []string{"cpu=1e2000000000", "cpu=-1e2000000000", "memory=1e100",
		"hugepages-1Gi=7e1999999999", "a.com/gpu=1e2147483647"} {
		p := podtest.Pod("p", podtest.Exact("c", amount), podtest.Exact("d", "cpu=1 memory=1 a.com/gpu=1"),
			podtest.Box("e", "cpu=1", "cpu=1e2000000000"))
		p.Spec.Overhead = podtest.List("cpu=1e1999999999")
		node := &v1.Node{Status: v1.NodeStatus{
			Allocatable: podtest.List("cpu=4 memory=1e1999999999 pods=1e2000000000 a.com/gpu=0e2000000000")}}
		for _, r := range Lacks(p, node, []*v1.Pod{podtest.Pod("q", podtest.Exact("c", amount))}) {
			if len(r.Text()) > 200 {
				t.Errorf("%s: reason %s", amount, r.Text())
			}
		}
	}
}

// A NUMA node is named by its id in the kernel, not by its bit in a mask.
func TestHoldingsNameNUMANodesByTheirIDs(t *testing.T) {
	m, err := topo.New(topo.Spec{
		NUMAs: []topo.NUMA{{ID: 0, Bytes: 1 << 30}, {ID: 8, Bytes: 1 << 30}, {ID: 9, Bytes: 1 << 30}},
		Cores: []topo.CoreSpec{{NUMA: 0, CPUs: idset.Of[idset.CPU](0)}, {NUMA: 8, CPUs: idset.Of[idset.CPU](1)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	held := []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](1), Memory: []place.Block{
		{Kind: "memory", NUMAs: 0b010, Bytes: 1 << 20}, {Kind: "hugepages-2Mi", NUMAs: 0b101, Bytes: 2 << 20}}}}
	const want = "c: cpus 1, 1Mi memory on NUMA node 8, 2Mi hugepages-2Mi on NUMA nodes 0,9"
	if got := document.Text(m, held); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	out := state.Outcome{Pod: state.PodID{Namespace: "default", Name: "p"}, Node: "n", Result: state.Wrong,
		Predicted: held[:1]}
	if got := Describe(m, out); !strings.Contains(got, "NUMA node 8,") || strings.Contains(got, "NUMA node 10") {
		t.Errorf("outcome is told as %s", got)
	}
}

// A kubelet refuses pods for alignment and for other reasons. A pod that failed otherwise was not refused.
func TestRefusedByItsKubelet(t *testing.T) {
	const ran = "The node was low on resource: memory."
	for _, x := range []struct {
		phase           v1.PodPhase
		reason, message string
		want            bool
	}{
		{v1.PodFailed, "TopologyAffinityError", "Pod was rejected: Resources cannot be allocated", true},
		{v1.PodFailed, "UnexpectedAdmissionError", "", true},
		{v1.PodFailed, "SysctlForbidden", `Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted`, true},
		{v1.PodFailed, "Evicted", ran, false},
		{v1.PodFailed, "", "", false},
		{v1.PodRunning, "TopologyAffinityError", "Pod was rejected: x", false},
	} {
		p := &v1.Pod{Status: v1.PodStatus{Phase: x.phase, Reason: x.reason, Message: x.message}}
		if reason, refused := Refused(p); refused != x.want || refused && reason != x.reason {
			t.Errorf("%s, %s, %s: refused is %v, because of %q", x.phase, x.reason, x.message, refused, reason)
		}
	}
}
