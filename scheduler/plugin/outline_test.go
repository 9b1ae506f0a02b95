package plugin

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
)

// machines of the test below: one cache for each NUMA node, and several.
var outlineMachines = []string{
	"numa 0 socket 0 cpus 0-15 memory 32Gi\nnuma 1 socket 1 cpus 16-31 memory 32Gi\n",
	"numa 0 socket 0 cpus 0-7/16-23 l3 2 memory 32Gi\nnuma 1 socket 1 cpus 8-15/24-31 l3 2 memory 32Gi\n",
	"numa 0 cpus 0-7 memory 16Gi\n",
	"numa 0 socket 0 cpus 0-15 memory 32Gi\nnuma 1 socket 0 cpus 16-31 memory 32Gi\ndevice acme.com/gpu a,b numa 1\n",
}

// After any reservations and releases, every answer is that of a whole verdict: the same cost, or the same refusal.
func TestAnswersAreThoseOfWholeVerdicts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := newPlugin(t, refuse)
	nodes := 0
	for _, machine := range outlineMachines {
		for policy := place.None; policy <= place.SingleNUMA; policy++ {
			nodes++
			p.Feed.Layout(layout(t, fmt.Sprint("n", nodes), machine, policy, 1))
		}
	}
	var held []string
	outlined := 0
	for i := range 400 {
		text := fmt.Sprintf("cpu=%d memory=%dGi", 1+random.IntN(12), 1+random.IntN(12))
		if random.IntN(4) == 0 {
			text += " acme.com/gpu=1"
		}
		pod := podOf(fmt.Sprint("p", i), text)
		if i%10 == 9 {
			pod.Annotations = map[string]string{"tenon.sh/numa-policy": "single-numa-node"}
		}
		s, status := translate(pod)
		fits(t, status)
		s.strategy = p.scoring(nil)
		p.learn(s)
		p.takeSnapshot(s, pod, p.Book.Snapshot(), nil)
		for slot := range s.snap.Slots() {
			n, _ := s.snap.At(slot)
			cost, refusal := p.answer(s, slot)
			v := n.Place(s.pod, s.demand)
			if v.Fits() != (refusal == nil) || v.Fits() && cost != s.cost(n, v) {
				t.Fatalf("seed %d: pod %s costs %d on %s (%v), and as a whole verdict %d (%v)", seed, text, cost, n.Name,
					refusal, s.cost(n, v), v)
			}
			if _, ok := s.outlineCost(n, slot); ok {
				outlined++
			}
		}
		if len(held) > 0 && random.IntN(3) == 0 {
			at := random.IntN(len(held))
			p.Book.Unreserve(held[at])
			held = append(held[:at], held[at+1:]...)
		}
		if _, ok := p.Book.Reserve(fmt.Sprint("n", 1+random.IntN(nodes)), state.PodID{UID: s.uid}, s.pod, s.demand); ok {
			held = append(held, s.uid)
		}
	}
	if outlined == 0 || p.strategy.Type != score.Tenon {
		t.Errorf("%d costs are computed by amounts", outlined)
	}
}
