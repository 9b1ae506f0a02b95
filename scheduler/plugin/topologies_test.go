package plugin

import (
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

func topology(node string, version int, free ...int64) *v1alpha2.NodeResourceTopology {
	return kubetest.Topology(node, version, free...)
}

func TestNodesWithOnlyAReportAreJudgedByIt(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Topology(topology("n", 1, 4, 12))
	fits(t, filter(t, p, cycle(t, p, cpus("p", 12)), "n"))
	says(
		t,
		filter(t, p, cycle(t, p, cpus("p", 13)), "n"),
		fwk.Unschedulable,
		`cannot align container "c" (wants 13 cpu on one NUMA node; best NUMA node has 12 free)`,
	)

	p.Feed.Topology(topology("n", 2))
	says(t, filter(t, p, cycle(t, p, cpus("p", 1)), "n"), fwk.UnschedulableAndUnresolvable,
		`what the node reports is refused: NodeResourceTopology of node "n": object has no zone`)
}

// Whatever unknown nodes are set to: a profile that refuses coarse nodes gets none.
func TestNodesWithOnlyAReportMayBeRefused(t *testing.T) {
	for _, unknown := range []string{"Allow", "AllowWithoutDemand", "Refuse"} {
		p := newPlugin(t, "coarseNodes: Refuse\nunknownNodes: "+unknown)
		p.Feed.Topology(topology("n", 1, 16, 16))
		pod, node := cpus("p", 4), nodeInfo("n").Node().Name
		cs := cycle(t, p, pod)
		const why = "node has a NodeResourceTopology and no layout"
		says(t, filter(t, p, cs, node), fwk.UnschedulableAndUnresolvable, why)
		says(t, p.Reserve(t.Context(), cs, pod, node), fwk.UnschedulableAndUnresolvable, why)
		hint, err := p.topologyChanged(klog.Background(), pod, nil, topology("n", 2, 16, 16))
		wakes(t, hint, err, false)
		hint, err = p.layoutChanged(klog.Background(), pod, nil, layout(t, "n", two, place.SingleNUMA, 3))
		wakes(t, hint, err, true)
		fits(t, filter(t, p, cycle(t, p, pod), node))
	}
}

// The hint of an event may come before the informer's handler: the first report that makes a pod fit wakes it.
func TestAReportWakesThePodsThatFitIt(t *testing.T) {
	p := newPlugin(t, refuse)
	logger, pod := klog.Background(), cpus("p", 12)
	hint, err := p.topologyChanged(logger, pod, nil, topology("n", 1, 4, 4))
	wakes(t, hint, err, false)
	hint, err = p.topologyChanged(logger, pod, nil, topology("n", 2, 4, 12))
	wakes(t, hint, err, true)
	fits(t, filter(t, p, cycle(t, p, pod), "n"))
	hint, err = p.topologyChanged(logger, pod, nil, topology("n", 1, 4, 4)) // an old one changes nothing
	wakes(t, hint, err, true)
	hint, err = p.topologyChanged(logger, pod, nil, topology("n", 3))
	wakes(t, hint, err, false)
	hint, err = p.topologyChanged(logger, pod, nil, "no object")
	wakes(t, hint, err, true)

	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 4)) // has more data, and wakes pods itself
	hint, err = p.topologyChanged(logger, pod, nil, topology("n", 5, 16, 16))
	wakes(t, hint, err, false)
}

func TestReportsAreFollowedWhereTheyAreServed(t *testing.T) {
	for want, served := range map[int]bool{0: false, 1: true} {
		p := newPlugin(t, "")
		if served {
			p.topology = &nrt.Resources()[0]
		}
		events, err := p.EventsToRegister(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, e := range events {
			if e.Event.Resource == "noderesourcetopologies.v1alpha2.topology.node.k8s.io" &&
				e.Event.ActionType == fwk.Add|fwk.Update|fwk.Delete {
				got++
			}
		}
		if got != want {
			t.Errorf("served %v: %d registrations", served, got)
		}
	}
}

// An exact node is preferred to a coarse one with as many NUMA nodes, a coarse one to an unknown one; no more NUMA
// nodes are used for that.
func TestNodesKnownExactlyGoBeforeThoseKnownCoarsely(t *testing.T) {
	p := newPlugin(t, "")
	p.Feed.Layout(layout(t, "exact", two, place.BestEffort, 1))
	p.Feed.Topology(topology("coarse", 2, 16, 12)) // fuller, which matters less
	got := scores(t, p, cpus("p", 12), "unknown", "coarse", "exact")
	if got[0] != 0 || got[0] >= got[1] || got[1] >= got[2] {
		t.Errorf("scores of an unknown, a coarse and an exact node: %v", got)
	}
	p.Feed.Layout(
		layout(t, "exact", two, place.BestEffort, 3, holding(cpus("x", 8), "0-7"), holding(cpus("y", 8), "16-23")),
	)
	p.Feed.Layout(layout(t, "wide", two+"numa 2 socket 2 cpus 32-47 memory 64Gi\n", place.BestEffort, 4,
		holding(cpus("x", 11), "0-10"), holding(cpus("y", 11), "16-26"), holding(cpus("z", 11), "32-42")))
	got = scores(t, p, cpus("p", 12), "wide", "coarse")
	if got[0] >= got[1] {
		t.Errorf("scores of a node that gives three numas, and a coarse one that gives one: %v", got)
	}
}
