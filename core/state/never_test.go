package state_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// halves has its only GPU on the first NUMA node.
const halves = "numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 socket 1 cpus 16-31 memory 64Gi\n" +
	"device example.com/gpu g0 numa 0\n"

// drawnNode makes a node of two NUMA nodes and pods of one to three containers.
func drawnNode(t *rapid.T) (n *state.Node, pods []*place.Pod) {
	more := rapid.SampledFrom([]string{"", "device example.com/gpu g1,g2 numa 1\n"}).Draw(t, "gpus")
	m, err := topo.ParseMachine(halves + more)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{CPU: place.CPURules{Static: true}, Memory: place.MemoryRules{Static: rapid.Bool().Draw(t, "static")}}
	policies := []place.Policy{place.None, place.BestEffort, place.Restricted, place.SingleNUMA}
	r.Topology.Policy = rapid.SampledFrom(policies).Draw(t, "policy")
	r.Topology.Scope = rapid.SampledFrom([]place.Scope{place.PerContainer, place.PerPod}).Draw(t, "scope")
	n = &state.Node{Name: "n", Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
	for range 4 {
		p := &place.Pod{QoS: place.Guaranteed}
		for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
			c := place.Container{Name: fmt.Sprint("c", i), MilliCPU: int64(rapid.IntRange(1, 18).Draw(t, "cpus")) * 1000,
				Memory: []place.Amount{{Kind: topo.Memory, Bytes: int64(rapid.IntRange(1, 40).Draw(t, "memory")) << 30}}}
			if i == 0 && rapid.IntRange(0, 3).Draw(t, "init") == 0 {
				c.Kind = place.Init
			}
			if k := rapid.IntRange(-1, 2).Draw(t, "gpu"); k > 0 {
				c.Devices = []place.Count{{Resource: "example.com/gpu", N: int64(k)}}
			}
			p.Containers = append(p.Containers, c)
		}
		pods = append(pods, p)
	}
	return n, pods
}

// A pod that is refused for good never fits beside other pods; where it may, the reason says so.
func TestARefusalForGoodHoldsBesideOtherPods(t *testing.T) {
	proven, doubtful := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n, pods := drawnNode(t)
		p := pods[0]
		never := n.Never(p)
		if len(never) == 0 {
			return
		}
		if never[0].When() != place.Never {
			doubtful++
			return
		}
		proven++
		for i, o := range pods[1:] {
			if next, ok := n.With(state.PodID{UID: fmt.Sprint(i)}, o); ok {
				n = next
			}
			if n.Fits(p) {
				t.Fatalf("%v, and yet the pod fits beside %d pods", never, i+1)
			}
		}
	})
	if proven == 0 || doubtful == 0 {
		t.Errorf("%d refusals for good, %d others; want both", proven, doubtful)
	}
}
