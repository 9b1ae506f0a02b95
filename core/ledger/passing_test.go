package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Six pods come to a node of up to four NUMA nodes in random interleavings, since there are too many to follow all. The
// checks of the model hold: no pod is refused, no prediction is wrong, and pods that wait get their turns. Pods pass
// each other in many of these.
func TestRandomInterleavingsOfPodsThatPass(t *testing.T) {
	passes := 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := beginOn(randomNode(t, r), randomPods(r), 2)
		m.restarts = 0
		m.wander(t, r, func(m *model) {
			for _, f := range m.book.nodes["n"].assumed {
				passes += min(1, f.passes)
			}
		})
	}
	if passes < 100 {
		t.Errorf("pods were passed in %d states, want many", passes)
	}
}

// wander takes random moves until there is none left, and checks every state; see gets each of them.
func (m *model) wander(t *testing.T, r *rand.Rand, see func(*model)) {
	for next := m.moves(t); len(next) > 0; next = m.moves(t) {
		m = next[r.IntN(len(next))]
		m.check(t)
		see(m)
	}
}

func randomNode(t *testing.T, r *rand.Rand) state.Layout {
	var text strings.Builder
	var reserved idset.Set[idset.CPU]
	cpu, n := 0, 4+r.IntN(4) // kubelets miscount sockets of different sizes
	for i := range 2 + r.IntN(3) {
		fmt.Fprintf(&text, "numa %d socket %d cpus %d-%d memory 32Gi\n", i, i, cpu, cpu+n-1)
		for k := range 1 + r.IntN(3) {
			reserved = reserved.Union(idset.Of(idset.CPU(cpu + k)))
		}
		cpu += n
	}
	if r.IntN(3) == 0 {
		text.WriteString("device nic a0,a1 numa 0\ndevice nic b0 numa 1\n")
	}
	machine, err := topo.ParseMachine(text.String())
	if err != nil {
		t.Fatal(err)
	}
	policies := []place.Policy{place.None, place.BestEffort, place.Restricted, place.SingleNUMA, place.SingleNUMA}
	return state.Layout{Machine: machine, Rules: place.Rules{
		Topology: place.TopologyRules{Policy: policies[r.IntN(len(policies))]},
		CPU:      place.CPURules{Static: true, Reserved: reserved}}}
}

func randomPods(r *rand.Rand) (out []modelPod) {
	for range 6 {
		p := modelPod{pod: pod(1+r.Int64N(5), 1), created: r.Int64N(3)}
		if r.IntN(4) == 0 {
			p.pod = withNICs(p.pod, 1)
		}
		out = append(out, p)
	}
	return out
}
