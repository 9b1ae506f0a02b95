package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// everyOrderLands is everyOrder for pods that also need NUMA nodes where devices are kept for pods like them.
func everyOrderLands(n *Node, list []Promised, devices map[string][]topo.Mask) bool {
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
		kind := x.Claims + x.Pod.Shape()
		at := slices.Index(devices[kind], place.Exclusive(n.Machine, next.Entries[len(next.Entries)-1].Holdings))
		if at < 0 {
			return false
		}
		with := map[string][]topo.Mask{}
		for k, list := range devices {
			with[k] = slices.Clone(list)
		}
		with[kind] = slices.Delete(with[kind], at, at+1)
		if !everyOrderLands(next, append(list[:i:i], list[i+1:]...), with) {
			return false
		}
	}
	return true
}

// lands returns a random node that promises pods devices on NUMA nodes. Most of these are where the pods get CPUs when
// they come in the order of the list.
func lands(r *rand.Rand, m *topo.Machine) *Node {
	rules := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true}}
	n := &Node{Name: "n", Machine: m, Rules: rules, Usage: place.NewUsage(m, rules)}
	after, same, size := n, r.IntN(2) == 0, 1+r.Int64N(4)
	for i := range 1 + r.IntN(6) {
		x := Promised{ID: PodID{UID: fmt.Sprint(i)}, For: fmt.Sprint("r", r.IntN(3)), Pod: cpus(size),
			Claims: fmt.Sprint("c", r.IntN(2))}
		if same {
			x.Claims = "c"
		} else {
			x.Pod = cpus(1 + r.Int64N(4))
		}
		x.On = after.Landing(x.Pod, place.Demand{})
		if x.On == 0 || r.IntN(10) == 0 {
			x.On = topo.Mask(1) << r.IntN(2)
		}
		after, _ = after.With(x.ID, x.Pod)
		n.Promised = append(n.Promised, x)
	}
	return n
}

// A node keeps promises with devices exactly if, in every order of the requests, each pod gets CPUs where devices for
// pods like it are left. After a pod has come, it still does.
func TestPromisedPodsLandBesideTheirDevices(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-7 memory 32Gi\nnuma 1 socket 1 cpus 8-15 memory 32Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	const seed = 11
	r := rand.New(rand.NewPCG(seed, seed))
	kept, broken, came := 0, 0, 0
	for range 4000 {
		n := lands(r, m)
		devices := map[string][]topo.Mask{}
		for _, x := range n.Promised {
			devices[x.Claims+x.Pod.Shape()] = append(devices[x.Claims+x.Pod.Shape()], x.On)
		}
		if got, want := n.Keeps(), everyOrderLands(n, n.Promised, devices); got != want {
			t.Fatalf("seed %d: the promises %+v are kept: %t, want %t", seed, n.Promised, got, want)
		} else if !got {
			broken++
			continue
		}
		kept++
		for len(n.Promised) > 0 { // pods of random requests come
			request := n.Promised[r.IntN(len(n.Promised))].For
			x := n.Promised[slices.IndexFunc(n.Promised, func(x Promised) bool { return x.For == request })]
			rest, used, ok := n.Redeem(request, x.Pod, x.Demand, x.Claims)
			if at := n.Landing(x.Pod, x.Demand); !ok || used.ID != x.ID || used.On != at {
				t.Fatalf("seed %d: a pod of %s that gets %v uses devices on %v", seed, request, at, used.On)
			}
			next, _ := rest.With(PodID{UID: "pod " + used.ID.UID}, used.Pod)
			if n = next; !n.Keeps() {
				t.Fatalf("seed %d: after a pod has come, the promises %+v are not kept", seed, n.Promised)
			}
			came++
		}
	}
	if kept < 500 || broken < 500 || came < 1000 {
		t.Errorf("kept %d, broken %d, came %d: too few of one kind", kept, broken, came)
	}
}
