package ledger

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

const twoNUMAs = `
numa 0 socket 0 cpus 0-15/32-47 memory 62Gi
numa 1 socket 1 cpus 16-31/48-63 memory 62Gi
device acme.com/gpu a,b numa 0
device acme.com/gpu c,d numa 1
`

// theMachine is shared by all reports, as the pool of cluster/kube shares equal machines.
var theMachine = sync.OnceValues(func() (*topo.Machine, error) { return topo.ParseMachine(twoNUMAs) })

func layout(t interface{ Fatal(...any) }, entries ...state.Entry) state.Layout {
	m, err := theMachine()
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{
		Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 32, 16, 48)},
		Memory: place.MemoryRules{Static: true, Reserved: []place.Reserved{
			{NUMA: 0, Kind: topo.Memory, Bytes: 2 << 30}, {NUMA: 1, Kind: topo.Memory, Bytes: 2 << 30}}},
	}
	return state.Layout{Machine: m, Rules: r, Entries: entries}
}

func pod(cpus, gib int64) *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: cpus * 1000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: gib << 30}}}}}
}

func id(n int) state.PodID {
	return state.PodID{UID: fmt.Sprint("uid-", n), Namespace: "default", Name: fmt.Sprint("p", n)}
}

func TestReserveIsDecidedUnderTheLock(t *testing.T) {
	b := New()
	b.Report("n", layout(t))
	stale := b.Snapshot().Node("n")
	fits := 0
	for i := range 6 {
		if v := place.Place(stale.Usage, pod(20, 1)); !v.Fits() {
			t.Fatal("the old snapshot changed")
		}
		if v, _ := b.Reserve("n", id(i), pod(20, 1), place.Demand{}); v.Fits() {
			fits++
		}
	}
	if fits != 2 {
		t.Errorf("%d pods of 20 CPUs were reserved on two NUMA nodes of 30", fits)
	}
}

// A node's state shares the entries of its report while no pod of it has ended, and leaves the report as it is.
func TestStatesShareTheEntriesOfReports(t *testing.T) {
	v := place.Place(place.NewUsage(layout(t).Machine, layout(t).Rules), pod(2, 1))
	var entries []state.Entry
	for i := range 3 {
		entries = append(entries, state.Entry{Pod: id(i), Source: state.Observed, Holdings: v.Holdings})
	}
	b := New()
	b.Report("n", layout(t, entries...))
	first := b.Snapshot().Node("n")
	if &first.Entries[0] != &entries[0] {
		t.Error("the entries of a report are copied")
	}
	b.Release(id(1).UID)
	if v, _ := b.Reserve("n", id(7), pod(2, 1), place.Demand{}); !v.Fits() {
		t.Fatal("a pod does not fit")
	}
	if now := b.Snapshot().Node("n").Entries; len(now) != 3 || now[1].Pod != id(2) || now[2].Pod != id(7) {
		t.Errorf("entries after an end and a reservation: %v", now)
	}
	if len(first.Entries) != 3 || entries[1].Pod != id(1) || entries[2].Pod != id(2) {
		t.Errorf("the report has changed: %v", entries)
	}
}

// turns returns whether it is the n-th pod's turn.
func turns(t *testing.T, b *Book, n int) bool {
	t.Helper()
	v, wait, err := b.Turn(id(n).UID, 0)
	if err != nil || (wait == nil && !v.Fits()) {
		t.Fatalf("pod %d: %+v, %v", n, v, err)
	}
	return wait == nil
}

// A restarted kubelet allocates memory again for init containers that ended long ago (memorymanager/policy_static.go,
// Allocate). The prediction for the pod still counts as right.
func TestReallocatedInitMemoryIsNoWrongPrediction(t *testing.T) {
	p := pod(4, 2)
	p.Containers = append([]place.Container{{Name: "init", Kind: place.Init, MilliCPU: 4000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: 3 << 30}}}}, p.Containers...)
	for bytes, want := range map[int64]state.Result{
		0: state.Confirmed, 1 << 30: state.Confirmed, 3 << 30: state.Confirmed, 2 << 30: state.Wrong,
	} {
		b := New()
		b.Report("n", layout(t))
		v, _ := b.Reserve("n", id(0), p, place.Demand{})
		b.Turn(id(0).UID, 0)
		seen := slices.Clone(v.Holdings)
		seen[0].Memory = []place.Block{{Kind: topo.Memory, NUMAs: 1, Bytes: bytes}}
		if bytes == 0 {
			seen[0].Memory = nil
		}
		out := b.Report("n", layout(t, state.Entry{Pod: id(0), Holdings: seen}))
		if len(out) != 1 || out[0].Result != want {
			t.Errorf("init container with %d bytes: outcomes %+v, want %s", bytes, out, want)
		}
	}
}

// The node may have admitted pod 1 before or after pod 0 ended. Until its next report, no pod that holds anything fits
// there, and no report makes the prediction wrong.
func TestANodeIsUnsettledAfterARelease(t *testing.T) {
	old := place.Place(place.NewUsage(layout(t).Machine, layout(t).Rules), pod(4, 1)).Holdings
	begin := func(admitted bool) *Book {
		b := New()
		b.Report("n", layout(t, state.Entry{Pod: id(0), Holdings: old}))
		b.Reserve("n", id(1), pod(4, 1), place.Demand{})
		b.Turn(id(1).UID, 0)
		if admitted {
			b.Admitted(id(1).UID)
		}
		if b.Snapshot().Node("n").Unsettled {
			t.Error("the node is unsettled before anything is released")
		}
		b.Release(id(0).UID)
		return b
	}
	b := begin(false)
	before, _ := b.Snapshot().Node("n").Entry(id(1).UID)
	for _, admitted := range []bool{false, true} {
		for _, seen := range [][]place.Holding{before.Holdings, old} {
			b := begin(admitted)
			if n := b.Snapshot().Node("n"); !n.Unsettled || n.Place(pod(1, 1), place.Demand{}).Fits() {
				t.Errorf("the node is unsettled: %t, and takes a pod", n.Unsettled)
			}
			b.Reserve("n", id(2), pod(1, 1), place.Demand{})
			for _, o := range b.Report("n", layout(t, state.Entry{Pod: id(1), Holdings: seen})) {
				if o.Result != state.Confirmed {
					t.Errorf("seen %v: %+v", seen, o)
				}
			}
			if n := b.Snapshot().Node("n"); n.Unsettled || !n.Place(pod(1, 1), place.Demand{}).Fits() {
				t.Error("the node is unsettled after its report")
			}
		}
	}
}

// When a pod ends, waiting pods move up, and one of them may find its place taken. It then holds nothing, and not what
// another pod holds.
func TestAWaitingPodWhosePlaceIsTakenHoldsNothing(t *testing.T) {
	b := New()
	l := layout(t)
	first := place.Place(place.NewUsage(l.Machine, l.Rules), pod(1, 1)).Holdings
	b.Report("n", layout(t, state.Entry{Pod: id(0), Holdings: first}))
	for i, p := range []*place.Pod{pod(1, 10), pod(1, 15), pod(1, 35), pod(11, 1), pod(20, 1)} {
		if v, _ := b.Reserve("n", id(i+1), p, place.Demand{}); !v.Fits() {
			t.Fatalf("pod %d: %v", i+1, v.Reasons)
		}
	}
	b.Release(id(0).UID)
	var all idset.Set[idset.CPU]
	for _, e := range b.Snapshot().Node("n").Entries {
		for _, h := range e.Holdings {
			if both := all.And(h.CPUs); !both.Empty() {
				t.Errorf("pod %s holds CPUs %s of another pod in the book", e.Pod, both)
			}
			all = all.Union(h.CPUs)
		}
	}
}

// The ledger as a state machine: in any sequence, holdings never exceed the machine, snapshots never change, and what
// is released is free again.
func TestBookProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New()
		b.Report("n", layout(t))
		sim := &node{usage: place.NewUsage(layout(t).Machine, layout(t).Rules)}
		flying := map[int]*place.Pod{}
		next := 0
		var old *state.Node
		var oldFree string
		t.Repeat(map[string]func(*rapid.T){
			"reserve and bind": func(t *rapid.T) {
				p := pod(int64(rapid.IntRange(1, 31).Draw(t, "cpus")), int64(rapid.IntRange(1, 40).Draw(t, "gib")))
				v, _ := b.Reserve("n", id(next), p, place.Demand{})
				if v.Fits() {
					flying[next] = p
				}
				next++
			},
			"admit": func(t *rapid.T) {
				for n := range next {
					p, ok := flying[n]
					if !ok {
						continue
					}
					v, wait, err := b.Turn(id(n).UID, 0)
					if err != nil {
						t.Fatal(err)
					}
					if wait != nil {
						continue
					}
					if !v.Fits() { // a pod before it was cancelled, and others moved into its place
						delete(flying, n)
						continue
					}
					if v = place.Place(sim.usage, p); !v.Fits() {
						t.Fatalf("the node refuses pod %d: %v", n, v.Reasons)
					}
					sim.admit(state.Entry{Pod: id(n), Holdings: v.Holdings})
					b.Admitted(id(n).UID)
					delete(flying, n)
				}
			},
			"report": func(t *rapid.T) {
				for _, o := range b.Report("n", layout(t, sim.entries...)) {
					if o.Result != state.Confirmed {
						t.Fatalf("%s: predicted %v, seen %v", o.Pod, o.Predicted, o.Seen)
					}
				}
			},
			"end": func(t *rapid.T) {
				if len(sim.entries) > 0 {
					uid := sim.end(t, rapid.IntRange(0, len(sim.entries)-1).Draw(t, "which"))
					b.Release(uid)
				}
			},
			"give up": func(t *rapid.T) {
				for n := range next {
					if flying[n] != nil {
						b.Unreserve(id(n).UID)
						delete(flying, n)
						return
					}
				}
			},
			"remember": func(*rapid.T) {
				old = b.Snapshot().Node("n")
				oldFree = old.Usage.FreeCPUs().String()
			},
			"": func(t *rapid.T) { check(t, b, old, oldFree) },
		})
	})
}

// node models a node: it admits pods in the order of the calls.
type node struct {
	usage   *place.Usage
	entries []state.Entry
}

func (n *node) admit(e state.Entry) {
	n.usage = n.usage.Hold(e.Holdings...)
	n.entries = append(n.entries, e)
}

func (n *node) end(t *rapid.T, i int) string {
	uid := n.entries[i].Pod.UID
	n.entries = slices.Delete(slices.Clone(n.entries), i, i+1)
	l := layout(t)
	n.usage = place.NewUsage(l.Machine, l.Rules).Hold(state.Holdings(n.entries)...)
	return uid
}

func check(t *rapid.T, b *Book, old *state.Node, oldFree string) {
	if old != nil && old.Usage.FreeCPUs().String() != oldFree {
		t.Fatal("a snapshot changed")
	}
	n := b.Snapshot().Node("n")
	var all idset.Set[idset.CPU]
	seen := map[string]bool{}
	for _, e := range n.Entries {
		if seen[e.Pod.UID] {
			t.Fatalf("pod %s has two entries", e.Pod)
		}
		seen[e.Pod.UID] = true
		for _, h := range e.Holdings {
			if all.AndLen(h.CPUs) > 0 {
				t.Fatalf("CPUs %s are held twice", all.And(h.CPUs))
			}
			all = all.Union(h.CPUs)
		}
	}
	if got, want := n.Usage.FreeCPUs().Len()+all.Len(), 60; got != want {
		t.Fatalf("held and free CPUs are %d, want %d", got, want)
	}
	for i := range n.Machine.NUMAs() {
		if f := n.Usage.FreeMemory(i, topo.Memory); f < 0 || f > n.Usage.Allocatable(i, topo.Memory) {
			t.Fatalf("NUMA node %d has %d bytes free", i, f)
		}
	}
}

func TestSnapshotKeepsNodesApart(t *testing.T) {
	b := New()
	for i := range 200 {
		b.Report(fmt.Sprint("n", i), layout(t))
	}
	before := b.Snapshot()
	b.Reserve("n7", id(1), pod(4, 1), place.Demand{})
	b.Forget("n9")
	if before.Len() != 200 || b.Snapshot().Len() != 199 || b.Snapshot().Node("n9") != nil || before.Node("n9") == nil {
		t.Error("nodes come and go in old snapshots")
	}
	if before.Node("n8") != b.Snapshot().Node("n8") || before.Node("n7") == b.Snapshot().Node("n7") {
		t.Error("a change of one node touches others, or not itself")
	}
}

// A pod that gets nothing from the node's managers is in no report, and no pod waits for it.
func TestAPodThatHoldsNothingIsNotAssumed(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := New()
		l := layout(t)
		l.Rules = place.Rules{}
		if !late {
			b.Report("n", l)
		}
		b.Recover("n", id(0), pod(4, 1))
		b.Admitted(id(0).UID)
		if late {
			b.Report("n", l)
		}
		if b.Booked("n", id(0).UID) || b.Snapshot().Node("n").Unsettled {
			t.Errorf("late %v: another pod waits for the pod", late)
		}
	}
}

// A pod runs although it fits in no state in which its node may be, and no report has it: a report is overdue.
func TestANodeThatDoesNotReportAPodWithoutAPlaceIsSilent(t *testing.T) {
	usage := place.NewUsage(layout(t).Machine, layout(t).Rules)
	var full []state.Entry
	for i := range 2 {
		v := place.Place(usage, pod(28, 1))
		full = append(full, state.Entry{Pod: id(i), Holdings: v.Holdings})
		usage = usage.Hold(v.Holdings...)
	}
	b := New()
	b.Report("n", layout(t, full...))
	b.Recover("n", id(2), pod(28, 1))
	b.Admitted(id(2).UID)
	if b.Snapshot().Node("n").Silent {
		t.Fatal("the node is silent before the report is overdue")
	}
	b.Overdue(id(2).UID)
	if !b.Snapshot().Node("n").Silent {
		t.Error("the node is not silent")
	}
}

func BenchmarkReserveBesideManyAssumed(b *testing.B) {
	book := New()
	book.Report("n", layout(b))
	for i := range 50 {
		book.Assume("n", id(i), pod(1, 1))
	}
	for b.Loop() {
		book.Reserve("n", id(100), pod(1, 1), place.Demand{})
		book.Unreserve(id(100).UID)
	}
}

// A reader who finds a pod in a report, and no object of it, names the pod until a report comes without it.
func TestAPodThatIsGoneIsNamed(t *testing.T) {
	held := place.Place(place.NewUsage(layout(t).Machine, layout(t).Rules), pod(28, 1)).Holdings
	b := New()
	b.Report("n", layout(t, state.Entry{Pod: id(0), Holdings: held}))
	b.Doubt(func(state.PodID) bool { return false })
	if gone := b.Snapshot().Node("n").Gone; len(gone) != 0 {
		t.Errorf("gone are %v, although the next report may come now", gone)
	}
	b.OpenDoubts("n")
	if gone := b.Snapshot().Node("n").Gone; len(gone) != 1 || gone[0] != id(0) {
		t.Errorf("gone are %v, want %v", gone, id(0))
	}
	b.Report("n", layout(t))
	if gone := b.Snapshot().Node("n").Gone; len(gone) != 0 {
		t.Errorf("gone are %v after the node has reported", gone)
	}
}
