package score_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/topo"
)

// node is one candidate: a machine, a policy, and the held CPUs.
type node struct {
	machine string
	policy  place.Policy
	scope   place.Scope
	max     int // max-allowable-numa-nodes
	held    string
}

func machine(tb testing.TB, text string) *topo.Machine {
	tb.Helper()
	m, err := topo.ParseMachine(text)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func (n node) usage(tb testing.TB) *place.Usage {
	tb.Helper()
	u := place.NewUsage(machine(tb, n.machine), place.Rules{
		Topology: place.TopologyRules{Policy: n.policy, Scope: n.scope, MaxNUMAs: n.max},
		CPU:      place.CPURules{Static: true},
		Memory:   place.MemoryRules{Static: true},
	})
	held, err := idset.Parse[idset.CPU](n.held)
	if err != nil {
		tb.Fatal(err)
	}
	return u.Hold(place.Holding{CPUs: held})
}

// pod has one container for each text, such as "cpu=2 memory=20Mi acme.com/gpu=1".
func pod(tb testing.TB, containers ...string) *place.Pod {
	tb.Helper()
	p := &place.Pod{QoS: place.Guaranteed}
	for i, text := range containers {
		c := place.Container{Name: fmt.Sprint("c", i)}
		for _, w := range strings.Fields(text) {
			name, amount, _ := strings.Cut(w, "=")
			n, err := topo.ParseBytes(amount)
			if err != nil {
				tb.Fatal(err)
			}
			switch name {
			case "cpu":
				c.MilliCPU = n * 1000
			case topo.Memory:
				c.Memory = append(c.Memory, place.Amount{Kind: name, Bytes: n})
			default:
				c.Devices = append(c.Devices, place.Count{Resource: name, N: n})
			}
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// scored returns the score of a node if there is no other; 0 if the pod does not fit.
func scored(tb testing.TB, s score.Strategy, p *place.Pod, n node) int64 {
	tb.Helper()
	u := n.usage(tb)
	v := place.Place(u, p)
	if !v.Fits() {
		return 0
	}
	return scoreOf(s, s.Cost(u, p, v, false))
}

// scoreOf returns the score of the first of some costs.
func scoreOf(s score.Strategy, costs ...int64) int64 {
	s.Scores(costs)
	return costs[0]
}

func ownCost(tb testing.TB, s score.Strategy, p *place.Pod, n node) int64 {
	tb.Helper()
	u := n.usage(tb)
	v := place.Place(u, p)
	if !v.Fits() {
		tb.Fatalf("does not fit: %v", v.Reasons)
	}
	return s.Cost(u, p, v, false)
}

// An estimated node costs one NUMA node more, a node that pins nothing costs more than any NUMA nodes, and an unknown
// one costs most.
func TestTenonPrefersExactNodes(t *testing.T) {
	two := node{machine: "numa 0 cpus 0-7 memory 8Gi\nnuma 1 cpus 8-15 memory 8Gi", policy: place.BestEffort}
	u, p := two.usage(t), pod(t, "cpu=4 memory=1Gi")
	var s score.Strategy
	one := place.Place(u, p)
	both := place.Place(u, pod(t, "cpu=16 memory=1Gi"))
	loose := place.NewUsage(u.Machine, place.Rules{})
	exact, estimated := s.Cost(u, p, one, false), s.Cost(u, p, one, true)
	if wide := s.Cost(u, p, both, false); exact >= estimated || estimated >= s.Cost(u, p, both, true) || exact >= wide {
		t.Errorf("one NUMA node costs %d, and %d on an estimated node; two cost %d", exact, estimated, wide)
	}
	pinsNothing := s.Cost(loose, p, place.Place(loose, p), false)
	if wide := s.Cost(u, p, both, false); pinsNothing <= wide || pinsNothing >= s.Unknown() {
		t.Errorf("a node that pins nothing costs %d, two NUMA nodes %d, an unknown node %d", pinsNothing, wide, s.Unknown())
	}
}

func TestNamesOfTypes(t *testing.T) {
	for _, name := range score.Names() {
		if typ, ok := score.ParseType(name); !ok || typ.String() != name {
			t.Errorf("%s is read as %v, %v", name, typ, ok)
		}
	}
	for _, name := range []string{"", "tenon", "LeastAllocatable"} {
		if _, ok := score.ParseType(name); ok {
			t.Errorf("%q is a type", name)
		}
	}
}
