package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// everyOrder reports whether promised pods fit, by trying every order in which requests may bring them, one by one.
func everyOrder(n *Node, list []Promised) bool {
	tried := map[string]bool{}
	for i, x := range list {
		if tried[x.For] {
			continue
		}
		tried[x.For] = true
		next, ok := n.With(x.ID, x.Pod)
		if !ok {
			return false
		}
		rest := append(list[:i:i], list[i+1:]...)
		if !everyOrder(next, rest) {
			return false
		}
	}
	return true
}

func cpus(n int64) *place.Pod {
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: n * 1000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: 1 << 30}}}}}
}

// A node keeps what it promised exactly if the pods fit in every order of the requests, and it takes another pod
// exactly if they still do after it.
func TestPromisesAreKeptInEveryOrder(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-7 memory 32Gi\nnuma 1 socket 1 cpus 8-15 memory 32Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	kept, broken, taken, refused := 0, 0, 0, 0
	for range 4000 {
		policy := []place.Policy{place.SingleNUMA, place.Restricted, place.BestEffort}[r.IntN(3)]
		rules := place.Rules{Topology: place.TopologyRules{Policy: policy}, CPU: place.CPURules{Static: true}}
		n := &Node{Name: "n", Machine: m, Rules: rules, Usage: place.NewUsage(m, rules)}
		for i := range 1 + r.IntN(6) {
			n.Promised = append(n.Promised, Promised{ID: PodID{UID: fmt.Sprint(i)}, For: fmt.Sprint("r", r.IntN(3)),
				Pod: cpus(1 + r.Int64N(5))})
		}
		if got, want := n.Keeps(), everyOrder(n, n.Promised); got != want {
			t.Fatalf("%s: the promises %v are kept: %t, want %t", policy, n.Promised, got, want)
		} else if !got {
			broken++
			continue
		}
		kept++
		p := cpus(1 + r.Int64N(6))
		after, ok := n.With(PodID{UID: "p"}, p)
		got, want := n.Place(p, place.Demand{}), ok && everyOrder(after, n.Promised)
		if got.Fits() != want || n.Fits(p) != want {
			t.Fatalf("%s: %v beside the promises %v: %v, want %t", policy, p, n.Promised, got, want)
		}
		if want {
			taken++
		} else if refused++; ok && got.Reasons[0].Code != place.Promised {
			t.Fatalf("%s: %v beside the promises %v is refused for %v", policy, p, n.Promised, got.Reasons)
		}
	}
	if min(kept, broken, taken, refused) < 100 {
		t.Errorf("%d kept, %d not, %d pods taken, %d refused: the test shows too little", kept, broken, taken, refused)
	}
}

// A node that keeps its promises in all states that are known may have lost the room all the same, until it reports.
func TestANodeMayHaveLostWhatItPromised(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-7 memory 32Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	rules := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}
	own := cpus(4)
	for _, c := range []struct {
		name            string
		request         string
		promised        int64
		unsettled       bool
		refused         *place.Pod
		lost, mayBeLost bool
	}{
		{"keeps", "r", 4, false, nil, false, false},
		{"unsettled", "r", 4, true, nil, false, true},
		{"refused such a pod", "r", 4, false, own, false, true},
		{"refused another pod", "r", 4, false, cpus(5), false, false},
		{"lost", "r", 9, true, nil, true, false},
		{"of another request", "q", 4, true, nil, false, false},
	} {
		n := &Node{Name: "n", Machine: m, Rules: rules, Usage: place.NewUsage(m, rules), Unsettled: c.unsettled,
			Promised: []Promised{{ID: PodID{UID: "x"}, For: "r", Pod: cpus(c.promised)}}}
		if c.refused != nil {
			n.Refused = map[string]place.RefusalReason{c.refused.Shape(): place.TopologyAffinityError}
		}
		if lost, may := n.HasLost(c.request), n.MayHaveLost(c.request, own); lost != c.lost || may != c.mayBeLost {
			t.Errorf("%s: lost %t, may have lost %t; want %t, %t", c.name, lost, may, c.lost, c.mayBeLost)
		}
	}
}
