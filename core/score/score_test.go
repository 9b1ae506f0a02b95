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

// node is one candidate: a machine, a policy, and the CPUs that are held already.
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

// scored returns the score of a node among no others; 0 where it does not fit.
func scored(tb testing.TB, s score.Strategy, p *place.Pod, n node) int64 {
	tb.Helper()
	u := n.usage(tb)
	v := place.Place(u, p)
	if !v.Fits() {
		return 0
	}
	cost := s.Cost(u, p, v, false)
	return s.Score(cost, cost, cost)
}

// Every pair of nodes differs in one term, and in the terms that count less it is the other way.
func TestTenonPrefersTheNodeThatWastesLeast(t *testing.T) {
	for name, c := range map[string]struct {
		pod           string
		better, worse string
		held          string // CPUs that are held on the better one
	}{
		"fewer numas, though more is left": {pod: "cpu=16 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\nnuma 1 socket 1 cpus 32-63 memory 64Gi",
			worse:  "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi"},
		"no device left without CPUs, though numas are farther apart": {pod: "cpu=16 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 40\ndistances 40 10",
			worse: "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 12\ndistances 12 10\n" +
				"device acme.com/gpu a,b numa 0"},
		"more CPUs beside the devices that are free": {pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a numa 0",
			worse:  "numa 0 socket 0 cpus 0-9 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"a sick device is no loss": {pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-8 memory 64Gi\ndevice acme.com/gpu a numa 0 unhealthy",
			worse:  "numa 0 socket 0 cpus 0-31 memory 64Gi\ndevice acme.com/gpu a numa 0"},
		"devices that the pod itself wants are no loss": {pod: "cpu=8 memory=1Gi acme.com/gpu=1",
			better: "numa 0 socket 0 cpus 0-8 memory 64Gi\ndevice acme.com/gpu a,b numa 0",
			worse:  "numa 0 socket 0 cpus 0-15 memory 64Gi\ndevice acme.com/gpu a,b numa 0"},
		"numas closer together, though more is left": {pod: "cpu=12 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-9 memory 64Gi\nnuma 1 socket 1 cpus 10-19 memory 64Gi\ndistances 10 12\ndistances 12 10",
			worse:  "numa 0 socket 0 cpus 0-7 memory 64Gi\nnuma 1 socket 1 cpus 8-15 memory 64Gi\ndistances 10 32\ndistances 32 10"},
		"the device on the pod's other numa, closer": {pod: "cpu=12 memory=1Gi acme.com/gpu=1",
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 memory 1Gi\ndistances 10 12\ndistances 12 10\ndevice acme.com/gpu a numa 1",
			worse:  "numa 0 socket 0 cpus 0-11 memory 64Gi\nnuma 1 memory 1Gi\ndistances 10 32\ndistances 32 10\ndevice acme.com/gpu a numa 1"},
		"the smaller numa, though its caches are smaller": {pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-7 l3 4 memory 64Gi", worse: "numa 0 socket 0 cpus 0-31 memory 64Gi"},
		"the fuller numa": {pod: "cpu=4 memory=1Gi", held: "0-7",
			better: "numa 0 socket 0 cpus 0-15 memory 64Gi", worse: "numa 0 socket 0 cpus 0-15 memory 64Gi"},
		"fewer caches, where all else is equal": {pod: "cpu=8 memory=1Gi",
			better: "numa 0 socket 0 cpus 0-15 l3 2 memory 64Gi", worse: "numa 0 socket 0 cpus 0-15 l3 4 memory 64Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			better := ownCost(t, pod(t, c.pod), node{machine: c.better, policy: place.BestEffort, held: c.held})
			worse := ownCost(t, pod(t, c.pod), node{machine: c.worse, policy: place.BestEffort})
			if better >= worse {
				t.Errorf("costs %d and %d: the better one must cost less", better, worse)
			}
			var s score.Strategy
			if b, w := s.Score(better, better, worse), s.Score(worse, better, worse); b != score.Max || w != 0 {
				t.Errorf("scores %d and %d", b, w)
			}
		})
	}
}

func ownCost(tb testing.TB, p *place.Pod, n node) int64 {
	tb.Helper()
	u := n.usage(tb)
	v := place.Place(u, p)
	if !v.Fits() {
		tb.Fatalf("does not fit: %v", v.Reasons)
	}
	return score.Strategy{}.Cost(u, p, v, false)
}

// What is known coarsely costs a numa more, what pins nothing more than any numas, and what is unknown most.
func TestTenonPrefersNodesThatAreKnown(t *testing.T) {
	two := node{machine: "numa 0 cpus 0-7 memory 8Gi\nnuma 1 cpus 8-15 memory 8Gi", policy: place.BestEffort}
	u, p := two.usage(t), pod(t, "cpu=4 memory=1Gi")
	var s score.Strategy
	one := place.Place(u, p)
	both := place.Place(u, pod(t, "cpu=16 memory=1Gi"))
	loose := place.NewUsage(u.Machine, place.Rules{})
	exact, coarse := s.Cost(u, p, one, false), s.Cost(u, p, one, true)
	if wide := s.Cost(u, p, both, false); exact >= coarse || coarse >= s.Cost(u, p, both, true) || exact >= wide {
		t.Errorf("one numa costs %d, and %d where it is known coarsely; two cost %d", exact, coarse, wide)
	}
	pinsNothing := s.Cost(loose, p, place.Place(loose, p), false)
	if wide := s.Cost(u, p, both, false); pinsNothing <= wide || pinsNothing >= s.Unknown() {
		t.Errorf("a node that pins nothing costs %d, two numas %d, an unknown node %d", pinsNothing, wide, s.Unknown())
	}
}

func TestScoresOfCosts(t *testing.T) {
	own := score.Strategy{}
	for _, c := range []struct {
		s               score.Strategy
		cost, low, high int64
		want            int64
	}{
		{own, 77, 77, 77, 100}, // a single node
		{own, 0, 0, 0, 100},
		{own, 10, 10, 30, 100},
		{own, 20, 10, 30, 50},
		{own, 30, 10, 30, 0},
		{own, 1<<20 + 1, 1 << 20, 1 << 30, 99}, // none but the cheapest gets all
		{own, own.Unknown(), 0, own.Unknown(), 0},
		// A scale of their own: competitors change nothing.
		{score.Strategy{Type: score.LeastAllocated}, 27, 27, 27, 73},
		{score.Strategy{Type: score.LeastAllocated}, 27, 0, 100, 73},
		{score.Strategy{Type: score.LeastNUMANodes}, 6, 6, 6, 94},
		{score.Strategy{Type: score.MostAllocated}, score.Strategy{Type: score.MostAllocated}.Unknown(), 0, 100, 0},
	} {
		if got := c.s.Score(c.cost, c.low, c.high); got != c.want {
			t.Errorf("%v: cost %d of %d..%d scores %d, want %d", c.s.Type, c.cost, c.low, c.high, got, c.want)
		}
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
