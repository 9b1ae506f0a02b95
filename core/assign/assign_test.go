package assign

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// twoNUMAs has two NUMA nodes of eight CPUs each. The system reserves one on each.
const twoNUMAs = `
numa 0 socket 0 cpus 0/1/2/3/4/5/6/7 memory 16Gi
numa 1 socket 1 cpus 8/9/10/11/12/13/14/15 memory 16Gi
`

// node returns an empty node whose kubelet puts each container on one NUMA node.
func node(t interface{ Fatal(...any) }, name string) *state.Node {
	m, err := topo.ParseMachine(twoNUMAs)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 8)}}
	return &state.Node{Name: name, Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
}

func pod(i, cpus int) Pod {
	p := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: int64(cpus) * 1000}}}
	return Pod{ID: state.PodID{UID: fmt.Sprint("uid-", i)}, Pod: p, Kind: p.Shape()}
}

func with(t interface{ Fatal(...any) }, n *state.Node, cpus ...int) *state.Node {
	for i, c := range cpus {
		next, ok := n.With(state.PodID{UID: fmt.Sprint(n.Name, "-", i)}, pod(i, c).Pod)
		if !ok {
			t.Fatal("the node has no room")
		}
		n = next
	}
	return n
}

const plenty = 1 << 20

// Two small pods come before two large ones. Best for each of the small ones may be the node that the large ones need.
func TestSmallPodsLeaveRoomForLargeOnes(t *testing.T) {
	p := Problem{Nodes: []*state.Node{node(t, "empty"), with(t, node(t, "tight"), 4, 4)},
		Pods: []Pod{pod(0, 3), pod(1, 3), pod(2, 7), pod(3, 7)}, Least: 4, Budget: plenty}
	at, spent := Find(p)
	if spent || fmt.Sprint(at) != "[1 1 0 0]" {
		t.Errorf("the pods get nodes %v, spent %t", at, spent)
	}
	p.Barred = func(node, pod int) bool { return node == 1 && pod < 2 }
	if at, spent := Find(p); at != nil || spent {
		t.Errorf("small pods that node 1 does not take get %v, spent %t", at, spent)
	}
	p.Least = 3
	at, _ = Find(p)
	if n := len(slices.DeleteFunc(slices.Clone(at), func(n int) bool { return n == Left })); n != 3 {
		t.Errorf("three of the pods should get nodes: %v", at)
	}
	p.Barred, p.Least, p.Room = nil, 4, func(node int, pods []int) bool { return len(pods) < 2 }
	if at, spent := Find(p); at != nil || spent {
		t.Errorf("four pods get %v on two nodes with room for one each, spent %t", at, spent)
	}
}

func TestASearchEndsWithItsBudget(t *testing.T) {
	p := Problem{Budget: 10_000}
	for i := range 8 {
		p.Nodes = append(p.Nodes, node(t, fmt.Sprint(i)))
	}
	for i := range 20 { // two fit each node
		p.Pods = append(p.Pods, pod(i, 5))
	}
	if at, spent := Find(p); spent || placed(at) != 16 {
		t.Errorf("of 20 equal pods, %d have nodes, spent %t", placed(at), spent)
	}
	p.Least = 17
	if at, spent := Find(p); at != nil || spent {
		t.Errorf("17 equal pods have %v, spent %t", at, spent)
	}
	p.Pods, p.Least = p.Pods[:17], 17
	p.Pods[16] = pod(16, 4) // no kind lacks room, and all of them together do
	if at, spent := Find(p); at != nil || !spent {
		t.Errorf("a search that is too long has %v, spent %t", at, spent)
	}
	p.Nodes = nil
	if at, spent := Find(p); at != nil || spent {
		t.Errorf("pods without nodes get %v", at)
	}
}

// On many nodes, most of the bound is left for the search itself: for several kinds of pods, whether all nodes have
// room or only the last ones.
func TestManyNodesLeaveMostOfTheBudget(t *testing.T) {
	empty, full := node(t, "empty"), with(t, node(t, "full"), 6, 6)
	single := place.Demand{Policy: place.SingleNUMA}
	for name, c := range map[string]struct {
		nodes, kinds, free int // the last nodes are free
		demand             place.Demand
	}{
		"two kinds, all nodes free":   {nodes: 5000, kinds: 2, free: 5000},
		"two kinds, a node free":      {nodes: 5000, kinds: 2, free: 1},
		"many kinds, all nodes free":  {nodes: 834, kinds: 7, free: 834},
		"many kinds, few nodes free":  {nodes: 5000, kinds: 7, free: 4},
		"with a demand, a node free":  {nodes: 5000, kinds: 2, free: 1, demand: single},
		"with a demand, all are free": {nodes: 5000, kinds: 2, free: 5000, demand: single},
	} {
		p := Problem{Least: c.kinds, Budget: SchedulerBudget}
		for i := range c.nodes {
			p.Nodes = append(p.Nodes, full)
			if i >= c.nodes-c.free {
				p.Nodes[i] = empty
			}
		}
		for i := range c.kinds {
			p.Pods = append(p.Pods, pod(i, i+1))
			p.Pods[i].Demand = c.demand
		}
		if at, left := FindLeft(p); placed(at) != c.kinds || left < SchedulerBudget/2 {
			t.Errorf("%s: %d of %d pods have nodes, and %d of the budget are left", name, placed(at), c.kinds, left)
		}
	}
}

// What keeps a pod from nodes may take long to find out: that counts.
func TestLongAnswersOfOtherRulesCount(t *testing.T) {
	p := Problem{Least: 2, Budget: 1000, Pods: []Pod{pod(0, 1), pod(1, 2)}}
	for range 100 {
		p.Nodes = append(p.Nodes, node(t, "n"))
	}
	calls := 0
	p.Pods[0].Effort, p.Pods[1].Effort = 100, 100
	p.Barred = func(int, int) bool { calls++; return true }
	if at, spent := Find(p); at != nil || !spent || calls > 10 {
		t.Errorf("the pods have nodes %v, spent %t, after %d calls", at, spent, calls)
	}
}

func placed(at []int) (n int) {
	for _, node := range at {
		if node != Left {
			n++
		}
	}
	return n
}

// Pods that need much memory move later ones to the other NUMA node. A pod that is taken out of the order may then not
// fit, and all of them in their order do.
func TestPodsThatFitInTheirOrderOnly(t *testing.T) {
	n := node(t, "n")
	n.Rules.Memory = place.MemoryRules{Static: true}
	n.Usage = place.NewUsage(n.Machine, n.Rules)
	n = with(t, n, 1)
	gib := func(p Pod, n int64) Pod {
		p.Pod.Containers[0].Memory = []place.Amount{{Kind: topo.Memory, Bytes: n << 30}}
		p.Kind = p.Pod.Shape()
		return p
	}
	p := Problem{Nodes: []*state.Node{n}, Least: 3, Budget: plenty,
		Pods: []Pod{gib(pod(0, 1), 15), gib(pod(1, 3), 4), gib(pod(2, 5), 1)}}
	if at, spent := Find(p); fmt.Sprint(at) != "[0 0 0]" || spent {
		t.Errorf("the pods get %v, spent %t", at, spent)
	}
}

// For any small group, and for a few pods with many more nodes than they need: Find has an assignment exactly if there
// is one, with nodes for as many pods as possible, and its pods fit in their order.
func TestFindIsExhaustive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, nodes, members := Problem{Budget: plenty}, rapid.IntRange(1, 3), rapid.IntRange(1, 5)
		if rapid.Bool().Draw(t, "many nodes") {
			nodes, members = rapid.IntRange(4, 8), rapid.IntRange(1, 3)
		}
		for i := range nodes.Draw(t, "nodes") {
			n := node(t, fmt.Sprint("n", i))
			for range rapid.IntRange(0, 3).Draw(t, "pods") {
				n, _ = n.With(state.PodID{UID: fmt.Sprint(i, len(n.Entries))}, pod(0, rapid.IntRange(1, 6).Draw(t, "cpus")).Pod)
			}
			p.Nodes = append(p.Nodes, n)
		}
		barred := map[string]int{}
		for i := range members.Draw(t, "members") {
			m := pod(i, rapid.IntRange(1, 8).Draw(t, "wanted"))
			m.Demand.Together = rapid.SampledFrom([]string{"", "", "", "a"}).Draw(t, "together")
			m.Demand.Apart = rapid.SampledFrom([]string{"", "", "b", "c"}).Draw(t, "apart")
			m.Kind += fmt.Sprint(m.Demand)
			if n := rapid.IntRange(-3, 2).Draw(t, "barred"); n >= 0 {
				m.Kind += fmt.Sprint(" not on ", n)
				barred[m.Kind] = n + 1
			}
			p.Pods = append(p.Pods, m)
		}
		p.Barred = func(node, pod int) bool { return barred[p.Pods[pod].Kind] == node+1 }
		p.Least = rapid.IntRange(1, len(p.Pods)).Draw(t, "least")
		at, spent := Find(p)
		if spent {
			t.Fatal("the search was not finished")
		}
		most := mostOf(&p, p.Nodes, 0)
		if at == nil {
			if most >= p.Least {
				t.Fatalf("%d pods have places, and Find has none for %d", most, p.Least)
			}
			return
		}
		if n := replay(t, &p, at); n < p.Least || n != most {
			t.Fatalf("%d pods have nodes %v; %d can", n, at, most)
		}
	})
}

// mostOf returns how many of the pods from index i on can have nodes at once, by trying every assignment.
func mostOf(p *Problem, nodes []*state.Node, i int) int {
	if i == len(p.Pods) {
		return 0
	}
	most := mostOf(p, nodes, i+1)
	for at, n := range nodes {
		if p.Barred(at, i) || elsewhere(p, nodes, at, i) {
			continue
		}
		if next, ok := joined(n, p.Pods[i]); ok {
			rest := slices.Clone(nodes)
			rest[at] = next
			most = max(most, 1+mostOf(p, rest, i+1))
		}
	}
	return most
}

// joined returns a node after it has admitted a pod, if the pod is then where its demand wants it.
func joined(n *state.Node, p Pod) (*state.Node, bool) {
	v := place.Place(n.Usage, p.Pod)
	on, _ := place.Tied(n.Machine, v.Holdings)
	if !v.Fits() || p.Demand.Together != "" && on.Len() > 1 {
		return nil, false
	}
	for _, e := range n.Entries {
		other, _ := place.Tied(n.Machine, e.Holdings)
		switch r := n.Basis.Relations[e.Pod.UID]; {
		case p.Demand.Together != "" && r.Together == p.Demand.Together && other != on,
			p.Demand.Apart != "" && r.Apart == p.Demand.Apart && other&on != 0:
			return nil, false
		}
	}
	return n.Join(p.ID, p.Pod, p.Demand)
}

// elsewhere reports whether pods that a pod has to be together with are on another node.
func elsewhere(p *Problem, nodes []*state.Node, at, i int) bool {
	return slices.ContainsFunc(nodes, func(n *state.Node) bool {
		return n.Name != nodes[at].Name && n.Together(p.Pods[i].Demand.Together)
	})
}

// replay admits the pods in their order, and returns how many have nodes.
func replay(t *rapid.T, p *Problem, at []int) (n int) {
	now := slices.Clone(p.Nodes)
	for i, node := range at {
		if node == Left {
			continue
		}
		if p.Barred(node, i) {
			t.Fatalf("pod %d gets node %d, which does not take it", i, node)
		}
		next, ok := joined(now[node], p.Pods[i])
		if !ok || elsewhere(p, now, node, i) {
			t.Fatalf("pod %d does not fit node %d after the others: %v", i, node, at)
		}
		now[node], n = next, n+1
	}
	return n
}
