package answers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// pod is a pod of cpus CPUs, with init containers of equal size.
func pod(cpus, inits int) *place.Pod {
	p := &place.Pod{QoS: place.Guaranteed}
	for i := range inits + 1 {
		c := place.Container{Name: fmt.Sprint("c", i), Kind: place.Init, MilliCPU: int64(cpus) * 1000}
		p.Containers = append(p.Containers, c)
	}
	p.Containers[inits].Kind = place.App
	return p
}

// book has empty nodes n0, n1 and so on.
func book(t *testing.T, nodes int) *ledger.Book {
	m, err := topo.ParseMachine("numa 0 cpus 0-15 memory 64Gi\nnuma 1 socket 1 cpus 16-31 memory 64Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	b := ledger.New()
	for i := range nodes {
		b.Report(fmt.Sprint("n", i), state.Layout{Machine: m, Rules: place.Rules{CPU: place.CPURules{Static: true}}})
	}
	return b
}

func kind(i int) Kind { return Kind{Pod: fmt.Sprint(i)} }

// A row computes the answer of a node once until that node changes. A new mix makes it compute the cost again, but not
// where the pod fits.
func TestAnswersAreCachedUntilTheNodeChanges(t *testing.T) {
	b, p := book(t, 200), pod(4, 0)
	var table Table
	asked := 0
	all := func(mix *score.Mix) *Row {
		s := b.Snapshot()
		row, _ := table.Row(kind(1), p, mix, s.Slots())
		for slot := range s.Slots() {
			row.Answer(s, slot, func(n *state.Node) (int64, *Refusal) {
				asked++
				return int64(slot), nil
			})
		}
		return row
	}
	row := all(nil)
	if all(nil); asked != 200 {
		t.Errorf("%d answers were computed for 200 nodes", asked)
	}
	b.Reserve("n7", state.PodID{UID: "x"}, p, place.Demand{})
	if all(nil); asked != 201 {
		t.Errorf("%d answers were computed after a node changed, want 1", asked-200)
	}
	if s := b.Snapshot(); row.Fitting(s).Len() != 200 || !row.Has(s, 0) {
		t.Error("the pod does not fit everywhere, or an answer is missing")
	}
	if again := all(score.NewMix(nil)); asked != 401 || again.fits != row.fits {
		t.Errorf("%d answers were computed by another mix, want 200", asked-201)
	}
}

// Equal refusals of many nodes are stored once, and their number is bounded.
func TestRefusalsAreBounded(t *testing.T) {
	b := book(t, 200)
	s := b.Snapshot()
	row, _ := new(Table).Row(kind(1), pod(4, 0), nil, s.Slots())
	refuse := func(slot int, reason string) {
		row.Answer(s, slot, func(*state.Node) (int64, *Refusal) {
			return 0, &Refusal{Reasons: []place.Reason{{Container: reason}}, Texts: []string{reason}}
		})
	}
	for slot := range 100 {
		refuse(slot, "no")
	}
	if n := len(row.list()); n != 1 {
		t.Errorf("%d refusals are kept of nodes that all say the same", n)
	}
	for slot := 100; slot < 200; slot++ {
		refuse(slot, strings.Repeat("c", 4000)+fmt.Sprint(slot))
	}
	if row.bytes == 0 || row.bytes > maxReasonBytes {
		t.Errorf("%d bytes of reasons are kept", row.bytes)
	}
	if row.Has(s, 199) || !row.Has(s, 99) {
		t.Error("an answer is there whose refusal is not, or the other way round")
	}
}

// Kinds of pods beyond the bounds cost time, but no memory: the least recently used kinds are dropped.
func TestRowsAreBounded(t *testing.T) {
	var table Table
	for i := range 2 * maxKinds {
		table.Row(kind(1000+i), pod(1, 0), nil, 1)
		if _, first := table.Row(kind(1), pod(1, 0), nil, 1); first && i > 0 {
			t.Fatal("the kind that always comes is forgotten")
		}
	}
	if n := table.Len(); n != maxKinds {
		t.Errorf("%d rows are kept, want %d", n, maxKinds)
	}
	for i := range 50 {
		table.Row(kind(i), pod(1, 3999), nil, 1)
	}
	sum := 0
	for _, r := range table.rows {
		sum += len(r.fits.pod.Containers)
	}
	if sum != table.containers || sum > maxContainers || table.Len() < 10 {
		t.Errorf("%d rows with %d containers are kept, %d are counted", table.Len(), sum, table.containers)
	}
	for slots, want := range map[int]int{0: maxKinds, 1000: maxKinds, 15_000: maxKinds, 100_000: 41, 1 << 30: minKinds} {
		if got := maxRows(slots); got != want {
			t.Errorf("%d rows are kept for %d nodes, want %d", got, slots, want)
		}
	}
}
