package whatif

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Once the named pods have ended, each of them alone or all of them together, the pod fits on the named node.
func TestSoonestLeadsToRoom(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		n, r, wants := filled(t)
		for _, w := range wants {
			given := []*Node{&n}
			s := r.Soonest(func() *Node {
				if len(given) == 0 {
					return nil
				}
				given = given[1:]
				return &n
			}, w)
			if len(s.Pods) == 0 {
				continue
			}
			found++
			sets := [][]state.PodID{s.Pods}
			if s.Any {
				sets = nil
				for _, p := range s.Pods {
					sets = append(sets, []state.PodID{p})
				}
			}
			for _, set := range sets {
				leads(t, r, &n, w, Way{Pods: set})
			}
		}
	})
	if found == 0 {
		t.Error("no pod was found whose end makes room")
	}
}

// The amount that is said to fit on a node leads to a pod that fits there, whatever else the pod asks for.
func TestTheAmountThatIsSaidToFitIsAllThatIsMissing(t *testing.T) {
	tried, none := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		nodes, r, wants := cases(t)
		r.Guard = guard.Guard{}
		for _, w := range wants {
			w := &Want{Pod: wider(wider(w.Pod)), Needs: w.Needs.Add(nil), Demand: w.Demand}
			w.Needs["cpu"] *= 4
			w.Needs["memory"] = rapid.SampledFrom([]int64{1, 80}).Draw(t, "memory") * gi
			n := nodes[0]
			for _, x := range r.Judge(&n, w, nil).Reasons {
				fits := n.Fitting(w, x)
				if fits == 0 {
					none++
					continue
				}
				tried++
				x.With = x.Resource
				at, now := requester(w.Pod, x)
				less := &Want{Pod: requesting(w.Pod, at, x.Resource, fits), Needs: w.Needs.Add(nil), Demand: w.Demand}
				unit := int64(1)
				if x.Resource == "cpu" {
					unit = 1000
				}
				less.Needs[x.Resource] -= (now - fits) * unit
				if j := r.Judge(&n, less, nil); !j.Fits() {
					t.Fatalf("%d %s fits for %v, and yet %v", fits, x.Resource, x, j.Reasons)
				}
			}
		}
	})
	if tried == 0 || none == 0 {
		t.Errorf("%d amounts, and none for %d reasons; want both", tried, none)
	}
}

// The amount that is said to fit on the empty node fits there.
func TestTheAmountThatIsSaidToFitFits(t *testing.T) {
	r := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA}, CPU: place.CPURules{Static: true,
		FullPCPUsOnly: true}}
	n := node(t, "a", "numa 0 socket 0 cpus 0-7/16-23 memory 64Gi\nnuma 1 socket 1 cpus 8-14/24-30 memory 64Gi\n", r)
	for _, c := range []struct {
		most, cpus, want int64
	}{{0, 40, 16}, {20, 40, 16}, {10, 40, 0}} {
		w := pod(c.cpus, 0)
		if n.Allocatable = nil; c.most > 0 {
			n.Allocatable = Amounts{"cpu": c.most * 1000, "pods": 110, "memory": 128 << 30}
		}
		reason := n.State.NeverMeets(w.Pod, w.Demand)[0]
		if got := n.Fitting(w, reason); got != c.want {
			t.Errorf("%d CPUs of %d: %d would fit, want %d", c.cpus, c.most, got, c.want)
		}
	}
}
