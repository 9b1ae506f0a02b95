package ledger

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// agentLayout is layout on a node whose arbiter is the agent.
func agentLayout(t interface{ Fatal(...any) }, entries ...state.Entry) state.Layout {
	l := layout(t, entries...)
	l.Rules.Arbiter = place.ByAgent
	return l
}

// If the agent pins containers, each pod gets what was reserved. Pods of different shapes do not wait for each other,
// although place would give them something else in another order.
func TestDecidedPodsDoNotWaitForTheirTurn(t *testing.T) {
	b := New()
	b.Report("n", agentLayout(t))
	for i, cpus := range []int64{10, 20, 10, 20} {
		if v, _ := b.Reserve("n", id(i), pod(cpus, 1), place.Demand{}); !v.Fits() {
			t.Fatalf("pod %d is not reserved: %+v", i, v)
		}
	}
	for _, i := range []int{3, 1, 0, 2} {
		before, _ := b.Snapshot().Node("n").Entry(id(i).UID)
		v, wait, err := b.Turn(id(i).UID, 0)
		if err != nil || wait != nil || !v.Fits() || !equalHoldings(v.Holdings, before.Holdings) {
			t.Errorf("pod %d: verdict %+v, waits %t, %v; it was reserved %+v", i, v, wait != nil, err, before.Holdings)
		}
	}
	if n := b.Snapshot().Node("n"); len(n.Others) > 0 || n.Unsettled {
		t.Errorf("%d other states, unsettled %t: what each pod gets is decided", len(n.Others), n.Unsettled)
	}
}

// Where the agent pins containers, the scheduler may choose the NUMA nodes, and pods that are reserved later do not
// change that. A kubelet cannot be asked for a place.
func TestPodsAreReservedOnNUMANodes(t *testing.T) {
	for _, arbiter := range []place.Arbiter{place.ByAgent, place.ByKubelet} {
		b, l := New(), layout(t)
		l.Rules.Arbiter = arbiter
		b.Report("n", l)
		second := l.Machine.All() &^ 1
		v, _ := b.ReserveOn("n", id(0), pod(4, 1), place.Demand{}, second)
		b.Reserve("n", id(1), pod(4, 1), place.Demand{})
		e, _ := b.Snapshot().Node("n").Entry(id(0).UID)
		got := place.Exclusive(l.Machine, e.Holdings)
		if !v.Fits() || (got == second) != (arbiter == place.ByAgent) {
			t.Errorf("arbiter %s: the pod is on %b (%v), asked for %b", arbiter, got, v.Reasons, second)
		}
	}
}

// The kubelet chooses devices without regard to NUMA nodes if its managers are off.
func TestDevicesUnderTheAgentAreUncertainUntilReported(t *testing.T) {
	b := New()
	b.Report("n", agentLayout(t))
	gpu := pod(2, 1)
	gpu.Containers[0].Devices = []place.Count{{Resource: "acme.com/gpu", N: 1}}
	b.Reserve("n", id(0), gpu, place.Demand{})
	v, wait, err := b.Turn(id(0).UID, 0)
	if err != nil || wait != nil || !v.Fits() {
		t.Fatal(v, err)
	}
	if !b.Snapshot().Node("n").Unsettled {
		t.Error("the node is settled before it said which GPU the pod got")
	}
	seen := slices.Clone(v.Holdings)
	seen[0].CPUs = idset.Of[idset.CPU](17, 49)
	seen[0].Memory = []place.Block{{Kind: "memory", NUMAs: 2, Bytes: 1 << 30}}
	seen[0].Devices = []place.DeviceBlock{{Resource: "acme.com/gpu", IDs: []string{"c"}, NUMAs: 2}}
	for _, o := range b.Report("n", agentLayout(t, state.Entry{Pod: id(0), Holdings: seen})) {
		if o.Result == state.Wrong {
			t.Errorf("a draw counts as a wrong prediction: %+v", o)
		}
	}
	if b.Snapshot().Node("n").Unsettled {
		t.Error("the node is unsettled although it has reported")
	}
}

// pinned is a node whose arbiter is the agent: it gives arriving pods what was decided, or places them itself.
type pinned struct {
	empty   *place.Usage
	entries []state.Entry
}

func (n *pinned) usage() *place.Usage { return n.empty.Hold(state.Holdings(n.entries)...) }

// Pods are reserved, bound, arrive, end and are reported in any order, and the book is begun again in between. Every
// decision holds: it is free when the pod arrives, and the report confirms it.
func TestDecisionsHoldInEveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := agentLayout(t)
		base.Rules.Topology.Policy = rapid.SampledFrom([]place.Policy{place.BestEffort, place.Restricted, place.SingleNUMA}).
			Draw(t, "policy")
		n := &pinned{empty: place.NewUsage(base.Machine, base.Rules)}
		b := New()
		report := func() {
			l := base
			l.Entries = slices.Clone(n.entries)
			for _, o := range b.Report("n", l) {
				if o.Result != state.Confirmed {
					t.Fatalf("%s: %+v", o.Result, o)
				}
			}
		}
		report()
		specs := map[string]*place.Pod{}
		decided := map[string][]place.Holding{}
		var reserved, bound []state.PodID
		pick := func(from *[]state.PodID) (state.PodID, bool) {
			if len(*from) == 0 {
				return state.PodID{}, false
			}
			i := rapid.IntRange(0, len(*from)-1).Draw(t, "pick")
			out := (*from)[i]
			*from = slices.Delete(slices.Clone(*from), i, i+1)
			return out, true
		}
		for k := range rapid.IntRange(1, 40).Draw(t, "steps") {
			steps := []string{"reserve", "reserve", "bind", "arrive", "end", "report", "restart"}
			switch rapid.SampledFrom(steps).Draw(t, "step") {
			case "reserve":
				p := id(k)
				specs[p.UID] = pod(rapid.Int64Range(1, 20).Draw(t, "cpus"), rapid.Int64Range(1, 40).Draw(t, "gib"))
				if v, ok := b.Reserve("n", p, specs[p.UID], place.Demand{}); ok && v.Fits() {
					reserved = append(reserved, p)
				}
			case "bind":
				if p, ok := pick(&reserved); ok {
					v, wait, err := b.Turn(p.UID, 0)
					if err != nil || wait != nil || !v.Fits() {
						t.Fatalf("%s may not be bound: %+v, %v", p, v, err)
					}
					decided[p.UID] = v.Holdings
					bound = append(bound, p)
				}
			case "arrive":
				if p, ok := pick(&bound); ok {
					v, kept := place.Decided(n.usage(), specs[p.UID], decided[p.UID])
					if !kept {
						t.Fatalf("%s: what was decided is not free any more: %+v", p, decided[p.UID])
					}
					n.entries = append(n.entries, state.Entry{Pod: p, Holdings: v.Holdings})
				}
			case "end":
				if len(n.entries) > 0 {
					i := rapid.IntRange(0, len(n.entries)-1).Draw(t, "ended")
					b.Release(n.entries[i].Pod.UID)
					n.entries = slices.Delete(slices.Clone(n.entries), i, i+1)
				}
			case "report":
				report()
			case "restart":
				for _, p := range reserved {
					b.Unreserve(p.UID)
				}
				reserved = nil
				b = New()
				report()
				for _, p := range bound {
					b.Recover("n", p, specs[p.UID])
					b.Decided(p.UID, decided[p.UID])
				}
			}
			owners := map[idset.CPU]string{}
			for _, e := range b.Snapshot().Node("n").Entries {
				for c := range e.Holdings[0].CPUs.All() {
					if before := owners[c]; before != "" && before != e.Pod.UID {
						t.Fatalf("CPU %d is of %s and %s", c, before, e.Pod.UID)
					}
					owners[c] = fmt.Sprint(e.Pod.UID)
				}
			}
		}
	})
}

// The agent reports a pod that was deleted by force until its containers have ended. Until then no other pod gets its
// CPUs, so no decision turns out wrong.
func TestCPUsOfAPodDeletedByForceAreNotDecidedForAnother(t *testing.T) {
	b := New()
	l := agentLayout(t)
	held := state.Entry{Pod: id(0), Holdings: place.Place(place.NewUsage(l.Machine, l.Rules), pod(28, 1)).Holdings}
	b.Report("n", agentLayout(t, held))
	b.Vanish(id(0).UID)
	for _, n := range []int{1, 2} { // before the agent's next report, and after it
		v, _ := b.Reserve("n", id(n), pod(4, 1), place.Demand{})
		if v.Fits() && v.Holdings[0].CPUs.AndLen(held.Holdings[0].CPUs) > 0 {
			t.Errorf("pod %d: verdict %+v, the other pod still has CPUs %s", n, v, held.Holdings[0].CPUs)
		}
		b.Report("n", agentLayout(t, held))
	}
	if v, _ := b.Reserve("n", id(3), pod(28, 1), place.Demand{}); v.Fits() {
		t.Errorf("while its containers run, another pod gets %+v", v.Holdings)
	}
	b.Report("n", agentLayout(t))
	if v, _ := b.Reserve("n", id(3), pod(28, 1), place.Demand{}); !v.Fits() {
		t.Errorf("after that: %+v", v.Reasons)
	}
}
