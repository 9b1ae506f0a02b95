package ledger

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// amounts is a report with the numbers of held CPUs on each of two NUMA nodes, and with the pods that are counted; nil
// if the report does not list them.
func amounts(t interface{ Fatal(...any) }, first, second int, counts map[string]bool) state.Layout {
	l := layout(t)
	var h place.Holding
	for i, n := range []int{first, second} {
		cpus := l.Machine.NUMAs()[i].CPUs.Minus(l.Rules.CPU.Reserved).List()[:n]
		h.CPUs = h.CPUs.Union(idset.Of(cpus...))
		if n > 0 {
			h.Memory = append(h.Memory, place.Block{Kind: topo.Memory, NUMAs: 1 << i, Bytes: int64(n) << 30})
		}
	}
	l.Amounts = &state.Amounts{Counts: counts}
	if !h.Empty() {
		l.Amounts.Held = []place.Holding{h}
	}
	return l
}

// square is a pod of n CPUs and n GiB.
func square(n int64) *place.Pod { return pod(n, n) }

// freeCPUs returns the CPUs that the book's state has free on each NUMA node.
func freeCPUs(n *state.Node) [2]int {
	var out [2]int
	for i := range out {
		out[i] = n.Machine.NUMAs()[i].CPUs.AndLen(n.Usage.FreeCPUs())
	}
	return out
}

func wantFree(t *testing.T, b *Book, first, second int) {
	t.Helper()
	if got, want := freeCPUs(b.Snapshot().Node("n")), [2]int{first, second}; got != want {
		t.Errorf("free CPUs are %v, want %v", got, want)
	}
}

func bindPod(t *testing.T, b *Book, n int, p *place.Pod) {
	t.Helper()
	if v, ok := b.Reserve("n", id(n), p, place.Demand{}); !ok || !v.Fits() {
		t.Fatalf("pod %d is refused: %v", n, v.Reasons)
	}
	if v, wait, err := b.Turn(id(n).UID, 0); wait != nil || err != nil || !v.Fits() {
		t.Fatalf("pod %d has no turn: %v, %v", n, v.Reasons, err)
	}
}

// An assumed pod is charged to the NUMA node that it will get, and to no other.
func TestAnAssumedPodIsChargedToItsNUMANode(t *testing.T) {
	b := New()
	b.Report("n", amounts(t, 0, 0, nil))
	bindPod(t, b, 0, square(24))
	wantFree(t, b, 6, 30)
	bindPod(t, b, 1, square(24))
	if v, _ := b.Reserve("n", id(2), square(24), place.Demand{}); v.Fits() {
		t.Error("a third pod of 24 CPUs fits two NUMA nodes of 30")
	}
}

func TestACountedPodIsNotChargedTwice(t *testing.T) {
	for name, said := range map[string]map[string]bool{
		"it says whom it counts": {id(0).UID: true, id(1).UID: false},
		"its amounts say":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := New()
			b.Report("n", amounts(t, 0, 0, nil))
			bindPod(t, b, 0, square(20))
			b.Admitted(id(0).UID)
			bindPod(t, b, 1, square(8))
			wantFree(t, b, 2, 30)
			out := b.Report("n", amounts(t, 20, 0, said))
			if len(out) != 1 || out[0].Pod != id(0) || out[0].Result != state.Confirmed {
				t.Errorf("outcomes %+v", out)
			}
			wantFree(t, b, 2, 30)
			out = b.Report("n", amounts(t, 28, 0, map[string]bool{id(0).UID: true, id(1).UID: true}))
			if len(out) != 1 || out[0].Pod != id(1) || out[0].Result != state.Confirmed {
				t.Errorf("outcomes %+v", out)
			}
			wantFree(t, b, 2, 30)
			b.Release(id(0).UID) // whose part of the amounts is known
			wantFree(t, b, 22, 30)
			b.Report("n", amounts(t, 28, 0, map[string]bool{id(0).UID: true, id(1).UID: true}))
			wantFree(t, b, 22, 30) // a report from before its end
			b.Report("n", amounts(t, 8, 0, map[string]bool{id(1).UID: true}))
			wantFree(t, b, 22, 30)
		})
	}
}

// If the node chose another place than was predicted, the amounts count, and the prediction does not.
func TestAmountsOverruleAPrediction(t *testing.T) {
	b := New()
	b.Report("n", amounts(t, 0, 0, nil))
	bindPod(t, b, 0, square(20))
	out := b.Report("n", amounts(t, 0, 20, map[string]bool{id(0).UID: true}))
	if len(out) != 1 || out[0].Result != state.Wrong {
		t.Errorf("outcomes %+v", out)
	}
	wantFree(t, b, 30, 10)
	b.Release(id(0).UID) // which must have been there
	wantFree(t, b, 30, 30)
	b.Report("n", amounts(t, 0, 0, map[string]bool{}))
	wantFree(t, b, 30, 30)
}

// The end of a pod at an unknown place leaves the node in one state for each NUMA node.
func TestAPodThatEndsAtAnUnknownPlace(t *testing.T) {
	b := New()
	for i := range 2 {
		b.Recover("n", id(i), square(20))
		b.Admitted(id(i).UID)
	}
	b.Report("n", amounts(t, 20, 20, nil))
	b.Release(id(0).UID)
	n := b.Snapshot().Node("n")
	if len(n.Others) != 1 || freeCPUs(n) != [2]int{30, 10} || freeCPUs(n.Others[0]) != [2]int{10, 30} {
		t.Fatalf("the node may have %v free, or one of %d others", freeCPUs(n), len(n.Others))
	}
	if v := n.Place(square(24), place.Demand{}); !v.Fits() {
		t.Errorf("a pod that fits wherever the other was is refused: %v", v.Reasons)
	}
	bindPod(t, b, 2, square(24))
	if v, _ := b.Reserve("n", id(3), square(11), place.Demand{}); v.Fits() {
		t.Error("two NUMA nodes with 10 and 6 CPUs free take a pod of 11")
	}
	b.Admitted(id(2).UID)
	bindPod(t, b, 4, square(6))
	b.Report("n", amounts(t, 20, 30, map[string]bool{id(1).UID: true, id(2).UID: true, id(4).UID: true}))
	wantFree(t, b, 10, 0)
}

// Two changes at once are not distinguishable, but the pods are interchangeable. The next change has no explanation: a
// pod that is known to be admitted stays charged until it is certainly counted.
func TestAmountsThatSeveralPodsExplain(t *testing.T) {
	b := New()
	b.Report("n", amounts(t, 0, 0, nil))
	bindPod(t, b, 0, square(8))
	b.Admitted(id(0).UID)
	bindPod(t, b, 1, square(8))
	b.Report("n", amounts(t, 8, 0, nil)) // either of them
	wantFree(t, b, 14, 30)
	b.Admitted(id(1).UID)
	b.Report("n", amounts(t, 17, 0, nil)) // and an unknown pod
	wantFree(t, b, 5, 30)
	b.Report("n", amounts(t, 17, 1, nil)) // another unknown pod; both pods were admitted before the previous report
	wantFree(t, b, 13, 29)
}

func TestTheFirstReportCountsExistingPods(t *testing.T) {
	b := New()
	for i := range 3 {
		b.Recover("n", id(i), square(4))
	}
	b.Admitted(id(0).UID)
	b.Admitted(id(1).UID)
	b.Report("n", amounts(t, 12, 0, nil)) // the amounts of all three
	wantFree(t, b, 18, 30)
	if b.Snapshot().Node("n").Unsettled {
		t.Error("the node is unsettled although all pods are counted")
	}

	c := New()
	for i := range 3 {
		c.Recover("n", id(i), square(4))
	}
	c.Admitted(id(0).UID)
	c.Report("n", amounts(t, 7, 0, nil)) // no sum of pods; those that were admitted are in it
	if n := c.Snapshot().Node("n"); !n.Unsettled || n.Fits(square(4)) {
		t.Error("a node on which two pods may be anywhere takes another")
	}
}

func TestANodeMayBecomeEstimatedAndExactAgain(t *testing.T) {
	b := New()
	l := layout(t)
	held := place.Place(place.NewUsage(l.Machine, l.Rules), square(20)).Holdings
	b.Report("n", layout(t, state.Entry{Pod: id(0), Holdings: held}))
	b.Report("n", amounts(t, 20, 0, nil))
	wantFree(t, b, 10, 30)
	b.Assume("n", id(0), square(20)) // an event of a pod that is counted
	wantFree(t, b, 10, 30)
	if q := b.Snapshot().Node("n").Quality; q != state.Estimated {
		t.Errorf("the node is %s", q)
	}
	b.Report("n", layout(t, state.Entry{Pod: id(0), Holdings: held}))
	wantFree(t, b, 10, 30)
	if q := b.Snapshot().Node("n").Quality; q != state.Exact {
		t.Errorf("the node is %s", q)
	}
}

// The layout of a node goes, and its NodeResourceTopology stays. That has another machine, whose CPUs have other
// numbers. It cannot refute what was predicted for the machine of the layout.
func TestAmountsDoNotRefuteWhatWasPredictedForAnotherMachine(t *testing.T) {
	for name, renew := range map[string]func(*Book){
		"the layout is replaced": func(*Book) {},
		"the layout goes first":  func(b *Book) { b.Forget("n") },
	} {
		t.Run(name, func(t *testing.T) {
			b := New()
			b.Report("n", layout(t))
			bindPod(t, b, 0, square(12))
			bindPod(t, b, 1, square(12))
			renew(b)
			coarse := amounts(t, 0, 24, map[string]bool{id(0).UID: true, id(1).UID: true})
			coarse.Machine, coarse.Amounts.Held[0].Memory[0].NUMAs = mirrored(t, coarse.Machine), 1
			if got := b.Report("n", coarse); len(got) > 0 {
				t.Errorf("the amounts of another machine have outcomes: %v", got)
			}
			wantFree(t, b, 6, 30)
		})
	}
}

// mirrored returns a machine whose two NUMA nodes have each other's CPUs.
func mirrored(t *testing.T, m *topo.Machine) *topo.Machine {
	t.Helper()
	s := m.Spec()
	for i := range s.Cores {
		s.Cores[i].NUMA = 1 - s.Cores[i].NUMA
	}
	out, err := topo.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// For any sequence of pods, and any delay of reports: the node admits every pod that was said to fit, on the predicted
// NUMA nodes. A report that counts all pods is taken as it is.
func TestAnEstimatedNodeAdmitsWhatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New()
		b.Report("n", amounts(t, 0, 0, map[string]bool{}))
		sim := &node{usage: place.NewUsage(layout(t).Machine, layout(t).Rules)}
		next := 0
		report := func(t *rapid.T) {
			l := layout(t)
			counts := map[string]bool{}
			for _, e := range sim.entries {
				counts[e.Pod.UID] = true
			}
			l.Amounts = &state.Amounts{Held: state.Holdings(sim.entries), Counts: counts}
			for _, o := range b.Report("n", l) {
				if o.Result != state.Confirmed {
					t.Fatalf("%s: predicted %v", o.Pod, o.Predicted)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"bind": func(t *rapid.T) {
				p := square(int64(rapid.IntRange(1, 20).Draw(t, "cpus")))
				if v, _ := b.Reserve("n", id(next), p, place.Demand{}); v.Fits() {
					v, wait, err := b.Turn(id(next).UID, 0)
					if err != nil {
						t.Fatal(err)
					}
					if wait != nil || !v.Fits() { // the states together may allow less than each of them
						b.Unreserve(id(next).UID)
						next++
						return
					}
					v = place.Place(sim.usage, p)
					if !v.Fits() {
						t.Fatalf("the node refuses pod %d: %v", next, v.Reasons)
					}
					sim.admit(state.Entry{Pod: id(next), Holdings: v.Holdings})
					b.Admitted(id(next).UID)
				}
				next++
			},
			"end": func(t *rapid.T) {
				if len(sim.entries) > 0 {
					b.Release(sim.end(t, rapid.IntRange(0, len(sim.entries)-1).Draw(t, "which")))
				}
			},
			"report": report,
			"":       func(*rapid.T) {},
		})
		report(t)
		want := freeCPUs(&state.Node{Machine: layout(t).Machine, Usage: sim.usage})
		if got := freeCPUs(b.Snapshot().Node("n")); got != want {
			t.Fatalf("free CPUs are %v, the node has %v", got, want)
		}
	})
}

// Several events report the end of a pod.
func TestAPodEndsOnce(t *testing.T) {
	b := New()
	b.Report("n", amounts(t, 0, 0, nil))
	bindPod(t, b, 0, square(8))
	b.Report("n", amounts(t, 8, 0, map[string]bool{id(0).UID: true}))
	wantFree(t, b, 22, 30)
	for range 2 {
		b.Release(id(0).UID)
		wantFree(t, b, 30, 30)
		if n := b.Snapshot().Node("n"); n.Unsettled || len(n.Others) > 0 {
			t.Error("the pod counts in another place, too")
		}
	}
}

// A report made before a pod ended may count it, even if no earlier report did.
func TestALateReportOfAPodThatEnded(t *testing.T) {
	b := New()
	b.Report("n", amounts(t, 0, 0, nil))
	bindPod(t, b, 0, square(8))
	b.Admitted(id(0).UID)
	bindPod(t, b, 1, square(4))
	b.Admitted(id(1).UID)
	b.Release(id(0).UID)
	b.Report("n", amounts(t, 12, 0, map[string]bool{id(0).UID: true, id(1).UID: true}))
	wantFree(t, b, 26, 30)
	b.Report("n", amounts(t, 4, 0, map[string]bool{id(1).UID: true}))
	wantFree(t, b, 26, 30)
}

// An exporter may see the end of a pod before any event reports it. If a report has no room for the pod, it does not
// count the pod. So the pod's end gives nothing back.
func TestAReportMayShowAnEndBeforeItsEvent(t *testing.T) {
	b := New()
	b.Report("n", amounts(t, 0, 0, nil))
	bindPod(t, b, 0, square(3))
	b.Report("n", amounts(t, 3, 0, map[string]bool{id(0).UID: true}))
	b.Report("n", amounts(t, 0, 0, nil))
	wantFree(t, b, 30, 30)
	bindPod(t, b, 1, square(6))
	b.Release(id(0).UID)
	wantFree(t, b, 24, 30)
	b.Report("n", amounts(t, 6, 0, nil))
	wantFree(t, b, 24, 30)
	if n := b.Snapshot().Node("n"); len(n.Others) > 0 || n.Unsettled {
		t.Errorf("the pod counts as part of the amounts: %d other states, unsettled is %v", len(n.Others), n.Unsettled)
	}
}

// A report that lists such a pod as counted ends the doubt.
func TestACountedPodGivesBackAgain(t *testing.T) {
	b := New()
	b.Report("n", amounts(t, 0, 0, nil))
	bindPod(t, b, 0, square(3))
	counted := map[string]bool{id(0).UID: true}
	b.Report("n", amounts(t, 3, 0, counted))
	b.Report("n", amounts(t, 0, 0, nil))
	b.Report("n", amounts(t, 3, 0, counted))
	wantFree(t, b, 27, 30)
	b.Release(id(0).UID)
	wantFree(t, b, 30, 30)
	b.Report("n", amounts(t, 0, 0, map[string]bool{}))
	wantFree(t, b, 30, 30)
}
