package whatif

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

const gi = 1 << 30

// pair has two NUMA nodes of 14 CPUs for pods each, and one GPU beside each.
const pair = `
numa 0 socket 0 cpus 0-15 memory 32Gi
numa 1 socket 1 cpus 16-31 memory 32Gi
device example.com/gpu g0 numa 0
device example.com/gpu g1 numa 1
`

func node(t testing.TB, name, text string, r place.Rules) Node {
	t.Helper()
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatal(err)
	}
	n := &state.Node{Name: name, Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
	all := Amounts{"cpu": int64(n.Usage.FreeCPUs().Len()) * 1000, "memory": 60 * gi, "pods": 110}
	for _, d := range m.Resources() {
		all[d.Name] = int64(len(d.Devices))
	}
	return Node{Name: name, State: n, Allocatable: all}
}

// single are the rules of a node that reserves two CPUs of each NUMA node of pair.
func single(t testing.TB) place.Rules {
	m, err := topo.ParseMachine(pair)
	if err != nil {
		t.Fatal(err)
	}
	return place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: m.CoreCPUs(0).Union(m.CoreCPUs(1)).Union(m.CoreCPUs(16)).Union(
			m.CoreCPUs(17))}}
}

// pod is a Guaranteed pod of one container.
func pod(cpus, gpus int64) *Want {
	c := place.Container{Name: "c", MilliCPU: cpus * 1000, Memory: []place.Amount{{Kind: topo.Memory, Bytes: gi}}}
	w := &Want{Pod: &place.Pod{QoS: place.Guaranteed}, Needs: Amounts{"cpu": cpus * 1000, "memory": gi, "pods": 1}}
	if gpus > 0 {
		c.Devices = []place.Count{{Resource: "example.com/gpu", N: gpus}}
		w.Needs["example.com/gpu"] = gpus
	}
	w.Pod.Containers = []place.Container{c}
	return w
}

func named(i int) state.PodID {
	return state.PodID{UID: fmt.Sprint("u", i), Namespace: "ns", Name: fmt.Sprint("p", i)}
}

func on() error { return nil }

func fill(t testing.TB, p *Plan, w *Want, count int) Outcome {
	out, err := p.Fill(w, count, named, on)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A node has 28 CPUs for pods, 14 on each NUMA node. One pod of 8 CPUs fits on each NUMA node, although plain amounts
// would admit three in all. Two pods of 7 CPUs fit on each, and then plain amounts are short.
func TestFillStopsWhenNUMANodesAreFull(t *testing.T) {
	for _, c := range []struct {
		cpus, gpus int64
		want       int
		code       place.Code
		have       int64
	}{
		{8, 0, 4, place.OneNUMA, 6},
		{7, 0, 8, place.Lacking, 0},
		{15, 0, 0, place.OneNUMA, 14},
		{2, 1, 4, place.Lacking, 0},
		{2, 2, 0, place.OneNUMA, 1},
	} {
		p := New([]Node{node(t, "a", pair, single(t)), node(t, "b", pair, single(t))}, Rules{})
		out := fill(t, p, pod(c.cpus, c.gpus), 100)
		if len(out.Placed) != c.want || len(out.Refusals) != 1 {
			t.Fatalf("%d cpus, %d gpus: %d placed, %d kinds of refusal; want %d, 1", c.cpus, c.gpus, len(out.Placed),
				len(out.Refusals), c.want)
		}
		r := out.Refusals[0]
		if !slices.Equal(r.Nodes, []string{"a", "b"}) || r.Reasons[0].Code != c.code || r.Reasons[0].Have != c.have {
			t.Errorf("%d cpus, %d gpus: refused for %+v; want %s with %d on a and b", c.cpus, c.gpus, r, c.code, c.have)
		}
	}
}

func TestPlainAmountsBarsAndNodesThatAreGone(t *testing.T) {
	nodes := []Node{node(t, "a", pair, single(t)), node(t, "b", pair, single(t)), node(t, "c", pair, single(t)),
		node(t, "d", pair, single(t))}
	nodes[0].Allocatable = Amounts{"cpu": 1500, "memory": 60 * gi, "pods": 110}
	nodes[1].Used = Amounts{"pods": 110}
	nodes[2].Gone = true
	w := pod(2, 0)
	w.Bars = &Bars{Why: [][]place.Reason{3: {{Code: place.Cordoned}}}}
	out := fill(t, New(nodes, Rules{}), w, 1)
	want := []Refusal{
		{Nodes: []string{"a"}, Reasons: []place.Reason{
			{Code: place.Lacking, Resource: "cpu", Want: 2, Have: 1, Never: true}}},
		{Nodes: []string{"b"}, Reasons: []place.Reason{{Code: place.Lacking, Resource: "pods", Want: 1, Have: 0}}},
		{Nodes: []string{"d"}, Reasons: []place.Reason{{Code: place.Cordoned}}},
	}
	if len(out.Placed) != 0 || !reflect.DeepEqual(out.Refusals, want) {
		t.Errorf("placed %v, refused for %+v; want %+v", out.Placed, out.Refusals, want)
	}
}

// Nodes that refuse for the same reasons make one refusal, with the highest amount that one of them has. A part of a
// CPU counts as a whole one in a want, and as none in what is left.
func TestRefusalsOfSeveralNodes(t *testing.T) {
	nodes := []Node{node(t, "a", pair, single(t)), node(t, "b", pair, single(t)), node(t, "c", pair, single(t))}
	nodes[0].Allocatable = Amounts{"cpu": 200, "pods": 110, "memory": 60 * gi}
	nodes[1].Allocatable = Amounts{"cpu": 1500, "pods": 110, "memory": 60 * gi}
	nodes[2].Allocatable = Amounts{"cpu": 1200, "pods": 110, "memory": 60 * gi}
	w := &Want{Pod: &place.Pod{}, Needs: Amounts{"cpu": 1600, "pods": 1}}
	want := []Refusal{{Nodes: []string{"a", "b", "c"}, Reasons: []place.Reason{{Code: place.Lacking, Resource: "cpu",
		Want: 2, Have: 1, Never: true}}}}
	if out := fill(t, New(nodes, Rules{}), w, 1); !reflect.DeepEqual(out.Refusals, want) {
		t.Errorf("refused for %+v, want %+v", out.Refusals, want)
	}
}

func TestNodesWithoutReports(t *testing.T) {
	blind := Node{Name: "edge", Allocatable: Amounts{"cpu": 64000, "memory": 60 * gi, "pods": 110}}
	known := node(t, "known", pair, single(t))
	demanding := pod(2, 0)
	demanding.Demand = place.Demand{Policy: place.SingleNUMA}
	for _, c := range []struct {
		trust guard.Trust
		want  *Want
		blind int
	}{
		{guard.Everybody, pod(14, 0), 4}, {guard.Nobody, pod(14, 0), 0}, {guard.WithoutDemand, pod(14, 0), 4},
		{guard.WithoutDemand, demanding, 0},
		{guard.Nobody, &Want{Pod: &place.Pod{}, Needs: Amounts{"cpu": 14000, "pods": 1}}, 0},
	} {
		out := fill(t, New([]Node{blind, known}, Rules{Guard: guard.Guard{Unknown: c.trust}}), c.want, 6)
		n := 0
		for i, x := range out.Placed {
			if x.Blind {
				n++
			}
			if i < 2 && x.Blind {
				t.Errorf("trust %d: pod %d went to the unknown node while the known one had room", c.trust, i)
			}
		}
		if n != c.blind {
			t.Errorf("trust %d, demand %v: %d pods on the unknown node, want %d", c.trust, c.want.Demand, n, c.blind)
		}
	}
}

// An estimated node admits what an exact one does, and costs more.
func TestEstimatedNodes(t *testing.T) {
	estimated, exact := node(t, "a", pair, single(t)), node(t, "b", pair, single(t))
	estimated.State.Quality = state.Estimated
	out := fill(t, New([]Node{estimated, exact}, Rules{}), pod(14, 0), 4)
	if len(out.Placed) != 4 || out.Placed[0].Node != 1 || out.Placed[1].Node != 1 || out.Placed[3].Node != 0 {
		t.Errorf("placed %+v; want two on the exact node, then two on the estimated one", out.Placed)
	}
	out = fill(t, New([]Node{estimated, exact}, Rules{Guard: guard.Guard{Estimated: true}}), pod(14, 0), 4)
	if len(out.Placed) != 2 || len(out.Refusals) != 2 {
		t.Errorf("placed %+v; want two, and a reason for each node", out.Placed)
	}
}

func TestEachPutsOneOnEveryNode(t *testing.T) {
	nodes := []Node{node(t, "a", pair, single(t)), node(t, "b", pair, single(t)), node(t, "c", pair, single(t))}
	nodes[1].Used = Amounts{"cpu": 28000}
	w := pod(2, 0)
	w.Bars = &Bars{Why: [][]place.Reason{2: {{Code: place.OtherAffinity}}}}
	out, wanted, err := New(nodes, Rules{}).Each(w, named, on)
	if err != nil || wanted != 2 || len(out.Placed) != 1 || out.Placed[0].Node != 0 {
		t.Fatalf("%d wanted, placed %+v, error %v; want 2, one on node a", wanted, out.Placed, err)
	}
	if len(out.Refusals) != 1 || !slices.Equal(out.Refusals[0].Nodes, []string{"b"}) {
		t.Errorf("refused by %+v, want node b alone", out.Refusals)
	}
}

// The requests of a pod as a whole are the containers and sidecars together, or an init container with the sidecars
// before it, whichever is more (KEP-753).
func TestSlotsCountSidecarsBesideInitContainers(t *testing.T) {
	container := func(name string, kind place.Kind, cpus int64) place.Container {
		return place.Container{Name: name, Kind: kind, MilliCPU: 1000 * cpus}
	}
	for want, containers := range map[int][]place.Container{
		2: {container("i", place.Init, 12), container("s", place.Sidecar, 4), container("c", place.App, 1)},
		1: {container("s", place.Sidecar, 4), container("i", place.Init, 12), container("c", place.App, 1)},
		5: {container("s", place.Sidecar, 4), container("c", place.App, 1)},
	} {
		got := Slots(node(t, "a", pair, single(t)), &place.Pod{QoS: place.Burstable, Containers: containers})
		if got != want {
			t.Errorf("%d pods fit beside each other, want %d: %v", got, want, containers)
		}
	}
}

func TestAnErrorEndsFill(t *testing.T) {
	stop := errors.New("enough")
	steps := 0
	_, err := New([]Node{node(t, "a", pair, single(t))}, Rules{}).Fill(pod(1, 0), 10, named, func() error {
		if steps++; steps == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || steps != 3 {
		t.Errorf("error %v after %d steps, want %v after 3", err, steps, stop)
	}
}

// cases draws small clusters and pods.
func cases(t *rapid.T) (nodes []Node, r Rules, wants []*Want) {
	policies := []place.Policy{place.None, place.BestEffort, place.Restricted, place.SingleNUMA}
	base, err := topo.ParseMachine(pair)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		rules := place.Rules{Topology: place.TopologyRules{Policy: rapid.SampledFrom(policies).Draw(t, "policy"),
			Scope: place.Scope(rapid.IntRange(0, 1).Draw(t, "scope"))},
			CPU: place.CPURules{Static: rapid.Bool().Draw(t, "static"), Reserved: base.CoreCPUs(0)}}
		n := &state.Node{Name: fmt.Sprint("n", i), Machine: base, Rules: rules, Usage: place.NewUsage(base, rules),
			Quality: state.Quality(rapid.IntRange(0, 1).Draw(t, "quality")), Silent: rapid.Bool().Draw(t, "silent")}
		if rapid.Bool().Draw(t, "inexact") {
			n.Inexact = []state.Inexact{{Code: state.UnknownKubeletVersion}}
		}
		x := Node{Name: n.Name, State: n, Allocatable: Amounts{"cpu": 31000, "memory": 60 * gi,
			"pods": rapid.Int64Range(1, 20).Draw(t, "pods"), "example.com/gpu": 2}}
		if rapid.IntRange(0, 5).Draw(t, "unknown") == 0 {
			x.State = nil
		}
		nodes = append(nodes, x)
	}
	r.Guard = guard.Guard{Unknown: guard.Trust(rapid.IntRange(0, 2).Draw(t, "trust")),
		Estimated: rapid.Bool().Draw(t, "refuse estimated"), Silent: rapid.Bool().Draw(t, "refuse silent"),
		Inexact: rapid.Bool().Draw(t, "refuse inexact"), KeepRestartable: rapid.Bool().Draw(t, "keep restartable")}
	for range rapid.IntRange(1, 6).Draw(t, "wants") {
		w := pod(rapid.Int64Range(1, 16).Draw(t, "cpus"), rapid.Int64Range(0, 2).Draw(t, "gpus"))
		w.Pod.QoS = rapid.SampledFrom([]place.QoS{place.Guaranteed, place.Guaranteed, place.Burstable}).Draw(t, "qos")
		w.Demand.Policy = rapid.SampledFrom(policies).Draw(t, "demand")
		wants = append(wants, w)
	}
	return nodes, r, wants
}

// The plan's caches change nothing: a twin that computes every answer again takes the same nodes, and stops at the same
// pod. No amount is exceeded, and the plan's input does not change.
func TestPlanAgreesWithASimpleTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, r, wants := cases(t)
		before := slices.Clone(nodes)
		r.Strategy.Mix = mix(wants)
		p, twin := New(nodes, r), New(nodes, r)
		for k, w := range wants {
			count := rapid.IntRange(1, 8).Draw(t, "count")
			name := func(i int) state.PodID { return named(100*k + i) }
			out, err := p.Fill(w, count, name, on)
			if err != nil {
				t.Fatal(err)
			}
			for i := range count {
				at, low := -1, int64(math.MaxInt64)
				for k := range twin.nodes {
					if fits := r.Judge(&twin.nodes[k], w, nil).Fits(); fits == (twin.cost(k, w) == refused) {
						t.Fatalf("node %s: Judge says that the pod fits: %v; its cost does not agree", nodes[k].Name, fits)
					}
					if c := twin.cost(k, w); c < low {
						at, low = k, c
					}
				}
				if at < 0 {
					if len(out.Placed) != i || len(out.Refusals) == 0 {
						t.Fatalf("%d placed and %d refusals, the twin places %d", len(out.Placed), len(out.Refusals), i)
					}
					break
				}
				twin.put(at, w, name(i))
				if i >= len(out.Placed) || out.Placed[i].Node != at {
					t.Fatalf("pod %d: placed %+v, the twin takes node %d", i, out.Placed, at)
				}
			}
			for i, n := range p.nodes {
				for name, used := range n.Used {
					if used > n.Allocatable[name] {
						t.Fatalf("node %s: %d of %d %s used", n.Name, used, n.Allocatable[name], name)
					}
				}
				if n.State != nil && !reflect.DeepEqual(n.State.Usage, twin.nodes[i].State.Usage) {
					t.Fatalf("node %s is in another state than the twin's", n.Name)
				}
			}
		}
		if !reflect.DeepEqual(before, p.Before()) {
			t.Fatal("what the plan was made of has changed")
		}
	})
}

// mix is the mix of a cluster with equally many requests for each of these pods.
func mix(wants []*Want) *score.Mix {
	var all []*Workload
	for _, w := range wants {
		all = append(all, &Workload{Want: w, Count: 3})
	}
	return Usual(nil, all)
}

// The pods to be placed count in the workload profile, and replace the oldest pods in it.
func TestUsual(t *testing.T) {
	old, new := pod(1, 0), pod(2, 1)
	past := slices.Repeat([]*place.Pod{old.Pod}, score.Remembered)
	for count, want := range map[int][]*place.Pod{1: {old.Pod}, 100: {old.Pod, new.Pod}, 900: {new.Pod, old.Pod},
		5000: {new.Pod}} {
		var got []*place.Pod
		for _, s := range Usual(past, []*Workload{{Want: new, Count: count}}).Shares() {
			got = append(got, s.Pod)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d pods asked for: %d shapes are usual, want %d", count, len(got), len(want))
		}
	}
}

// BenchmarkFill has the size that users ask about: 10,000 pods of 20 shapes on 5,000 nodes.
func BenchmarkFill(b *testing.B) {
	var nodes []Node
	for i := range 5000 {
		nodes = append(nodes, node(b, fmt.Sprintf("n%04d", i), pair, single(b)))
	}
	var wants []*Want
	for i := range 20 {
		wants = append(wants, pod(int64(i%10)+1, int64(i/10)))
	}
	rules := Rules{Strategy: score.Strategy{Mix: mix(wants)}}
	for b.Loop() {
		p := New(nodes, rules)
		for i := range 10000 {
			w := wants[i%len(wants)]
			out, err := p.Fill(w, 1, func(int) state.PodID { return named(i) }, on)
			if err != nil || len(out.Placed) != 1 {
				b.Fatalf("pod %d: %+v, error %v", i, out.Refusals, err)
			}
		}
	}
}
