package cli

import (
	"testing"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// A remembered count is used only for the same state and the same total amounts of the node.
func TestRememberedSlotsFollowTheNode(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-15 memory 64Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	book := ledger.New()
	book.Report("n", state.Layout{Machine: m, Rules: place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true}}})
	pod := func(cpus int64) *place.Pod {
		return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: cpus * 1000}}}
	}
	node := func(pods int64) whatif.Node {
		return whatif.Node{Name: "n", State: book.Snapshot().Node("n"),
			Allocatable: whatif.Amounts{"cpu": 16_000, "pods": pods}, Used: whatif.Amounts{}}
	}
	var s Slots
	for range 2 {
		if got := s.count(pod(4), node(100)); got != 4 {
			t.Errorf("%d pods of 4 CPUs fit on 16", got)
		}
		if got := s.count(pod(2), node(100)); got != 8 {
			t.Errorf("%d pods of 2 CPUs fit on 16", got)
		}
		if got := s.count(pod(4), node(3)); got != 3 {
			t.Errorf("%d pods of 4 CPUs fit on a node for 3 pods", got)
		}
	}
	if _, ok := book.Reserve("n", state.PodID{UID: "u", Name: "p"}, pod(4), place.Demand{}); !ok {
		t.Fatal("the pod does not fit")
	}
	if got := s.count(pod(4), node(100)); got != 3 {
		t.Errorf("%d pods of 4 CPUs fit beside one", got)
	}
	if s.dropGone(nil); len(s.known[pod(4).Shape()]) > 0 {
		t.Error("a node that is gone is remembered")
	}
}
