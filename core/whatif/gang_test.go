package whatif

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/place"
)

// gangOf makes a gang of pods that request so many CPUs each.
func gangOf(least int, cpus ...int64) Gang {
	g := Gang{Least: least}
	wants := map[int64]*Want{}
	for i, c := range cpus {
		if wants[c] == nil {
			wants[c] = pod(c, 0)
		}
		g.Pods = append(g.Pods, Member{ID: named(i), Want: wants[c]})
	}
	return g
}

func together(t testing.TB, p *Plan, g Gang) GangOutcome {
	out, err := p.Together(g, on)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// places has the positions of the nodes of an outcome.
func places(out GangOutcome) (at []int) {
	for _, x := range out.Placed {
		at = append(at, x.Node)
	}
	return at
}

func placed(out GangOutcome) int {
	return len(slices.DeleteFunc(places(out), func(at int) bool { return at == assign.Left }))
}

// The scheduler takes small pods first, and puts each beside the other. The NUMA nodes that the large ones need stay
// free all the same.
func TestAGangIsPlacedAsAWholeOrNotAtAll(t *testing.T) {
	nodes := []Node{node(t, "a", pair, single(t)), node(t, "b", pair, single(t))}
	p := New(nodes, Rules{})
	if out := together(t, p, gangOf(4, 14, 14, 14, 14)); !out.Fits || placed(out) != 4 {
		t.Fatalf("four pods on four NUMA nodes: %+v", out)
	}
	p = New(nodes, Rules{})
	out := together(t, p, gangOf(5, 14, 14, 14, 14, 14))
	if out.Fits || placed(out) != 4 || out.First != 4 || out.Doubt != None || len(out.Refusals) == 0 {
		t.Fatalf("five pods on four NUMA nodes: %+v", out)
	}
	if len(p.Changed()) > 0 || !reflect.DeepEqual(p.Nodes(), p.Before()) {
		t.Errorf("a gang that does not fit changes nodes %v", p.Changed())
	}
	if got := fill(t, p, pod(14, 0), 9); len(got.Placed) != 4 {
		t.Errorf("after a gang that does not fit there is room for %d pods", len(got.Placed))
	}
	p = New(nodes, Rules{})
	if out := together(t, p, gangOf(3, 14, 14, 14, 14, 14)); !out.Fits || placed(out) != 4 || out.First != 4 {
		t.Errorf("three of five pods are enough: %+v", out)
	}
}

// A rack takes all the pods, or another one does.
func TestAGangGetsOneRack(t *testing.T) {
	nodes := []Node{node(t, "a", pair, single(t)), node(t, "b", pair, single(t)), node(t, "c", pair, single(t))}
	g := gangOf(3, 14, 14, 14)
	g.Racks = []Rack{{"one", []int{0}}, {"two", []int{1, 2}}}
	p := New(nodes, Rules{})
	if out := together(t, p, g); !out.Fits || out.Rack != "two" || slices.Contains(places(out), 0) {
		t.Errorf("three pods in two racks: %+v", out)
	}
	g = gangOf(5, 14, 14, 14, 14, 14)
	g.Racks = []Rack{{"one", []int{0}}, {"two", []int{1, 2}}}
	if out := together(t, New(nodes, Rules{}), g); out.Fits || out.Rack != "two" || placed(out) != 4 {
		t.Errorf("five pods that only all racks together have room for: %+v", out)
	}
	g.Racks = []Rack{}
	if out := together(t, New(nodes, Rules{}), g); out.Fits || placed(out) != 0 || out.First != 0 {
		t.Errorf("no rack: %+v", out)
	}
}

// A gang of many kinds of pods: the search reaches its bound, and that is no proof.
func TestAGangOfManyKindsIsNotCalledHopeless(t *testing.T) {
	p := New([]Node{node(t, "a", pair, single(t)), node(t, "b", pair, single(t)), node(t, "c", pair, single(t)),
		node(t, "d", pair, single(t)), node(t, "e", pair, single(t)), node(t, "f", pair, single(t))}, Rules{})
	var cpus []int64
	for i := range 40 {
		cpus = append(cpus, int64(3+i%3))
	}
	out := together(t, p, gangOf(40, append(cpus, 8)...))
	if out.Fits || out.Doubt != Budget || placed(out) < 30 {
		t.Errorf("a search that is too long: fits %t, doubt %q, %d placed", out.Fits, out.Doubt, placed(out))
	}
	for range assign.SchedulerPods {
		cpus = append(cpus, 3)
	}
	if out := together(t, p, gangOf(len(cpus), cpus...)); out.Fits || out.Doubt != Size {
		t.Errorf("a gang that is too large for a search: %+v", out.Doubt)
	}
}

// Where a node's NUMA nodes are not known, the search proves nothing.
func TestUnknownNodesMayTakeAGang(t *testing.T) {
	unknown := node(t, "b", pair, single(t))
	unknown.State, unknown.Allocatable = nil, Amounts{"cpu": 8000, "memory": 60 * gi, "pods": 110}
	p := New([]Node{node(t, "a", pair, single(t)), unknown}, Rules{})
	if out := together(t, p, gangOf(4, 8, 8, 7, 13)); out.Fits || out.Doubt != Unknown {
		t.Errorf("fits %t, doubt %q, %v", out.Fits, out.Doubt, places(out))
	}
}

// alone lets no two of its pods onto one node.
type alone struct{}

type apart struct{ taken map[int]bool }

func (alone) Among([]Node) Neighbours  { return apart{map[int]bool{}} }
func (alone) Same(Peers) bool          { return true }
func (a apart) Placed(_ Peers, at int) { a.taken[at] = true }
func (a apart) Lets(at int) bool       { return !a.taken[at] }

func (a apart) Why(at int) []place.Reason {
	if a.taken[at] {
		return []place.Reason{{Code: place.PodAntiAffinity}}
	}
	return nil
}

func TestPodsOfAGangKeepTheirDistance(t *testing.T) {
	nodes := []Node{node(t, "a", pair, single(t)), node(t, "b", pair, single(t))}
	g := gangOf(2, 5, 5)
	g.Pods[0].Want.Peers = alone{}
	if out := together(t, New(nodes, Rules{}), g); !out.Fits || places(out)[0] == places(out)[1] {
		t.Errorf("two pods get %v", places(out))
	}
	g = gangOf(3, 5, 5, 5)
	g.Pods[0].Want.Peers = alone{}
	if out := together(t, New(nodes, Rules{}), g); out.Fits || placed(out) != 2 || out.Doubt != None {
		t.Errorf("three pods on two nodes: %+v", out)
	}
}

// For any small gang, the answer is that of trying every assignment, in the order of the pods. The places hold.
func TestTogetherIsExhaustive(t *testing.T) {
	empty := node(t, "n", pair, single(t))
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Node
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			n := empty
			n.Name = fmt.Sprint("n", i)
			n.Allocatable = Amounts{"cpu": rapid.Int64Range(20, 28).Draw(t, "cpu") * 1000, "memory": 60 * gi, "pods": 110}
			nodes = append(nodes, n)
		}
		g := gangOf(1, rapid.SliceOfN(rapid.Int64Range(1, 14), 1, 5).Draw(t, "pods")...)
		g.Least = rapid.IntRange(1, len(g.Pods)).Draw(t, "least")
		p := New(nodes, Rules{})
		out, err := p.Together(g, on)
		if err != nil || out.Doubt != None {
			t.Fatal(out.Doubt, err)
		}
		most := mostTogether(nodes, g.Pods)
		if out.Fits != (most >= g.Least) || out.Fits && placed(out) < g.Least || !out.Fits && placed(out) != most {
			t.Fatalf("%d of %d pods fit at the same time, %d have to; fits %t, placed %v", most, len(g.Pods), g.Least, out.Fits,
				places(out))
		}
		for i, m := range g.Pods {
			if at := places(out)[i]; at != assign.Left {
				var ok bool
				if nodes[at], ok = with(nodes[at], m); !ok {
					t.Fatalf("pod %d does not fit where it is placed: %v", i, places(out))
				}
			}
		}
	})
}

// mostTogether tries every assignment.
func mostTogether(nodes []Node, pods []Member) int {
	if len(pods) == 0 {
		return 0
	}
	most := mostTogether(nodes, pods[1:])
	for i := range nodes {
		if n, ok := with(nodes[i], pods[0]); ok {
			next := slices.Clone(nodes)
			next[i] = n
			most = max(most, 1+mostTogether(next, pods[1:]))
		}
	}
	return most
}

func with(n Node, m Member) (Node, bool) {
	next, ok := n.State.With(m.ID, m.Want.Pod)
	if !ok || len(n.Lacks(m.Want.Needs)) > 0 {
		return n, false
	}
	n.State, n.Used = next, n.Used.Add(m.Want.Needs)
	return n, true
}
