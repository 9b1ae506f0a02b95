package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// deed is one event on a node. The node has two NUMA nodes with six CPUs for pods on each.
type deed struct {
	name string
	do   func(*ledger.Book)
}

func deeds(t *testing.T) []deed {
	small := machine(t, "numa 0 cpus 0-5 memory 32Gi\nnuma 1 socket 1 cpus 6-11 memory 32Gi")
	l := state.Layout{
		Machine: small,
		Rules:   place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}},
	}
	out := []deed{
		{"report", func(b *ledger.Book) { b.Report("n", l) }},
		{"lost", func(b *ledger.Book) { b.Recover("n", podID("lost"), smallPod(4)) }},
	}
	for i, name := range []string{"a", "b"} {
		id, p := podID(name), smallPod(int64(3+2*i))
		out = append(out,
			deed{"book " + name, func(b *ledger.Book) { b.Reserve("n", id, p, place.Demand{}) }},
			deed{"turn " + name, func(b *ledger.Book) { _, _, _ = b.Turn(id.UID, 0) }}, // the turn shows in the node
			deed{"bind " + name, func(b *ledger.Book) { b.Assume("n", id, p) }},
			deed{"admit " + name, func(b *ledger.Book) { b.Admitted(id.UID) }},
			deed{"end " + name, func(b *ledger.Book) { b.Release(id.UID) }},
			deed{"delete " + name, func(b *ledger.Book) { b.Vanish(id.UID) }},
			deed{"refuse " + name, func(b *ledger.Book) { b.Refuse(id.UID, place.TopologyAffinityError) }})
	}
	return out
}

func podID(name string) state.PodID { return state.PodID{UID: name, Namespace: "ml", Name: name} }

func smallPod(cpus int64) *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{
		{Name: "c", MilliCPU: 1000 * cpus, Memory: []place.Amount{{Kind: topo.Memory, Bytes: gi}}}}}
}

// After any three events on a node, explain finds for a pod what the scheduler finds when it filters the node and when
// it reserves it. The scheduler filters the node by itself and through its index of nodes. The node may have several
// possible states, be unsettled, or have refused such a pod.
func TestExplainSaysWhatTheSchedulerDoes(t *testing.T) {
	all := deeds(t)
	var several, unsettled, refused int
	var done []deed
	var walk func()
	walk = func() {
		b := ledger.New()
		all[0].do(b)
		var names []string
		for _, d := range done {
			d.do(b)
			names = append(names, d.name)
		}
		n := b.Snapshot().Node("n")
		several += min(1, len(n.Others))
		unsettled += one(n.Unsettled)
		refused += min(1, len(n.Refused))
		for _, cpus := range []int64{3, 5, 6} {
			pod := view.Pod{ID: podID("x"), Pod: smallPod(cpus)}
			said := newExplanation(pod, []*state.Node{n}, nil).verdicts[0].judged.Verdict
			index := ledger.NewIndex(pod.Pod, pod.Demand)
			for by, fits := range map[string]bool{
				"the node":             n.Fits(pod.Pod),
				"the index":            index.Fits(n),
				"the index of a whole": index.Fitting(b.Snapshot()).Has("n"),
			} {
				if fits != said.Fits() {
					t.Fatalf("after %s: explain says %v, by %s the pod fits: %t", strings.Join(names, ", "), said, by, fits)
				}
			}
			v, _ := b.Reserve("n", podID("x"), pod.Pod, pod.Demand)
			if said.Fits() != v.Fits() || fmt.Sprint(said.Reasons) != fmt.Sprint(v.Reasons) {
				t.Fatalf("after %s: explain says %v, the scheduler %v", strings.Join(names, ", "), said, v)
			}
			b.Unreserve("x")
		}
		if len(done) < 3 {
			for _, d := range all {
				done = append(done, d)
				walk()
				done = done[:len(done)-1]
			}
		}
	}
	walk()
	if several == 0 || unsettled == 0 || refused == 0 {
		t.Errorf(
			"%d nodes were in several states, %d unsettled, %d had refused a pod: want some of each",
			several,
			unsettled,
			refused,
		)
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
