package plugin

import (
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// fragmented has tasks of low priority on both NUMA nodes of one node. The node has twelve more free CPUs, but no NUMA
// node has as many.
func fragmented(t *testing.T) *cluster {
	c := newCluster(t)
	c.node("n", two, place.SingleNUMA)
	c.job("low", "default", 1, "cpu=10 x2", priority(1))
	o := c.session("allocate")
	if failed := c.bind(o); len(o.bound) != 2 || len(failed) > 0 {
		t.Fatalf("bound %v, not bound %v", o.bound, failed)
	}
	return c
}

// Where plain amounts suffice but alignment fails, preemption evicts one task and pipelines the preemptor. When the
// victim has left, the preemptor is bound.
func TestPreemptionMakesRoomOnANUMANode(t *testing.T) {
	c := fragmented(t)
	c.preempt = map[string]any{topologyAware: true}
	c.job("high", "default", 1, "cpu=12", priority(100))
	o := c.session("allocate", "preempt")
	if len(o.evicted) != 1 || o.pipelined["high-0"] != "n" {
		t.Fatalf("evicted %v, pipelined %v, why %v: want one victim, and high-0 pipelined", o.evicted, o.pipelined, o.why)
	}
	c.terminate(o.evicted[0])
	o = c.session("allocate", "preempt")
	if failed := c.bind(o); o.bound["high-0"] != "n" || len(failed) > 0 {
		t.Errorf("bound %v, not bound %v, pipelined %v, evicted %v, why %v: want high-0 on n", o.bound, failed, o.pipelined,
			o.evicted, o.why)
	}
}

// Without topology-aware preemption Volcano counts only plain amounts. It evicts no task for alignment, because an
// eviction might not help.
func TestPlainPreemptionEvictsNobodyInVain(t *testing.T) {
	c := fragmented(t)
	c.job("high", "default", 1, "cpu=12", priority(100))
	if o := c.session("allocate", "preempt"); len(o.evicted) > 0 || len(o.pipelined) > 0 {
		t.Errorf("evicted %v, pipelined %v", o.evicted, o.pipelined)
	}
}

// No task is evicted for a task that even the empty node would not take.
func TestNobodyIsEvictedForWhatNeverFits(t *testing.T) {
	c := fragmented(t)
	c.preempt = map[string]any{topologyAware: true}
	c.job("wide", "default", 1, "cpu=20", priority(100))
	if o := c.session("allocate", "preempt"); len(o.evicted) > 0 || len(o.pipelined) > 0 {
		t.Errorf("evicted %v, pipelined %v for a task wider than a NUMA node", o.evicted, o.pipelined)
	}
}

// A queue below its share gets a NUMA node back from a queue above its share, though no plain amount is short.
func TestReclaimMakesRoomOnANUMANode(t *testing.T) {
	c := newCluster(t)
	c.queue("greedy", 1)
	c.queue("poor", 1)
	c.node("n", two, place.SingleNUMA)
	c.job("greedy", "greedy", 1, "cpu=10 x2")
	if o := c.session("allocate"); len(c.bind(o)) > 0 || len(o.bound) != 2 {
		t.Fatalf("bound %v", o.bound)
	}
	c.job("poor", "poor", 1, "cpu=12")
	o := c.session("allocate", "reclaim")
	if len(o.evicted) != 1 || o.pipelined["poor-0"] != "n" {
		t.Fatalf("evicted %v, pipelined %v, why %v: want one victim, and poor-0 pipelined", o.evicted, o.pipelined, o.why)
	}
	c.terminate(o.evicted[0])
	if o = c.session("allocate"); len(c.bind(o)) > 0 || o.bound["poor-0"] != "n" {
		t.Errorf("bound %v, why %v, want poor-0 on n", o.bound, o.why)
	}
}
