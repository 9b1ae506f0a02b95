package defrag

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

var (
	cases = flag.Int("defrag.n", 600, "random clusters that TestPlansAreTheCheapest draws")
	seed  = flag.Uint64("defrag.seed", 1, "the first seed of TestPlansAreTheCheapest")
)

const (
	gi = 1 << 30
	// small has two NUMA nodes of 4 CPUs for pods each, and two GPUs beside each.
	small = `
numa 0 socket 0 cpus 0-5 memory 32Gi
numa 1 socket 1 cpus 6-11 memory 32Gi
device example.com/gpu g0 numa 0
device example.com/gpu g1 numa 0
device example.com/gpu g2 numa 1
device example.com/gpu g3 numa 1
`
)

func node(t testing.TB, name string, policy place.Policy) whatif.Node {
	t.Helper()
	return nodeOf(t, small, name, policy)
}

func nodeOf(t testing.TB, machine, name string, policy place.Policy) whatif.Node {
	t.Helper()
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	reserved := m.CoreCPUs(m.Cores()[0]).Union(m.CoreCPUs(m.Cores()[1])).Union(
		m.CoreCPUs(m.Cores()[6])).Union(m.CoreCPUs(m.Cores()[7]))
	r := place.Rules{Topology: place.TopologyRules{Policy: policy}, CPU: place.CPURules{Static: true, Reserved: reserved}}
	n := &state.Node{Name: name, Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
	return whatif.Node{Name: name, State: n, Allocatable: whatif.Amounts{"cpu": int64(n.Usage.FreeCPUs().Len()) * 1000,
		"memory": 60 * gi, "pods": 110, "example.com/gpu": 4}}
}

func pod(cpus, gpus int64) *whatif.Want {
	c := place.Container{Name: "c", MilliCPU: cpus * 1000, Memory: []place.Amount{{Kind: topo.Memory, Bytes: gi}}}
	w := &whatif.Want{Pod: &place.Pod{QoS: place.Guaranteed},
		Needs: whatif.Amounts{"cpu": cpus * 1000, "memory": gi, "pods": 1}}
	if gpus > 0 {
		c.Devices = []place.Count{{Resource: "example.com/gpu", N: gpus}}
		w.Needs["example.com/gpu"] = gpus
	}
	w.Pod.Containers = []place.Container{c}
	return w
}

// shared is a pod that holds nothing exclusively, with so much memory.
func shared(memGi int64) *whatif.Want {
	return &whatif.Want{Pod: &place.Pod{QoS: place.Burstable, Containers: []place.Container{{Name: "c", MilliCPU: 100}}},
		Needs: whatif.Amounts{"cpu": 100, "memory": memGi * gi, "pods": 1}}
}

func id(name string) state.PodID { return state.PodID{UID: name, Namespace: "ns", Name: name} }

// settle puts a pod on a node, if it fits there, and returns it as a mover.
func settle(nodes []whatif.Node, at int, name string, w *whatif.Want) (Mover, bool) {
	n := &nodes[at]
	next, ok := n.State, true
	if !w.Pod.Plain() {
		next, ok = n.State.Join(id(name), w.Pod, w.Demand)
	}
	if !ok || len(n.Lacks(w.Needs)) > 0 {
		return Mover{}, false
	}
	n.State, n.Used = next, n.Used.Add(w.Needs)
	r := whatif.Resident{Pod: id(name), Needs: w.Needs}
	n.Pods = append(n.Pods, r)
	return Mover{Resident: r, Node: at, Want: w, Weight: 1}, true
}

func asking(wants ...*whatif.Want) (out []Goal) {
	for i, w := range wants {
		out = append(out, Goal{Member: whatif.Member{ID: id(fmt.Sprint("new", i)), Want: w}})
	}
	return out
}

func find(t testing.TB, p Problem) Result {
	t.Helper()
	if p.Most == 0 {
		p.Most = 20
	}
	if p.Trials == 0 {
		p.Trials = 1000
	}
	p.Looks = 1_000_000
	out, err := Find(p, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// text has the moves of a plan, such as "a to y, b to z".
func text(p Problem, r Result) string {
	if r.Plan == nil {
		return "none"
	}
	var out []string
	for _, m := range r.Plan.Moves {
		out = append(out, p.Movers[m.Mover].Pod.Name+" to "+p.Nodes[m.To.Node].Name)
	}
	return strings.Join(out, ", ")
}

// Half of each NUMA node is free, so no pod of a whole one fits, although half of all CPUs is free.
func TestOneMoveMakesRoom(t *testing.T) {
	nodes := []whatif.Node{node(t, "x", place.SingleNUMA), node(t, "y", place.SingleNUMA)}
	var p Problem
	for i, name := range []string{"a", "b", "c", "d"} {
		blocker, ok := settle(nodes, i/2, name, pod(3, 0)) // so that the next one goes to the other NUMA node
		if !ok {
			t.Fatal("the pod does not fit")
		}
		blocker.Weight = int64(10 - i)
		p.Movers = append(p.Movers, blocker)
	}
	p.Nodes, p.Pods = nodes, asking(pod(4, 0))
	if r := find(t, p); r.Plan != nil || !r.Cheapest {
		t.Errorf("four pods of 3 CPUs and one of 4 on four NUMA nodes of 4: %s", text(p, r))
	}
	for i := range p.Movers {
		p.Movers[i].Want = pod(1, 0) // its controller has another template now
	}
	r := find(t, p)
	if got := text(p, r); r.Plan == nil || len(r.Plan.Moves) != 1 || p.Movers[r.Plan.Moves[0].Mover].Pod.Name != "d" ||
		!r.Cheapest {
		t.Errorf("moves %s, cheapest %t; want the pod with the smallest weight", got, r.Cheapest)
	}
}

func TestBoundsOfPlans(t *testing.T) {
	nodes := []whatif.Node{node(t, "x", place.SingleNUMA), node(t, "y", place.SingleNUMA)}
	var movers []Mover
	for i, name := range []string{"a", "b", "c", "d"} {
		m, _ := settle(nodes, i/2, name, pod(2, 0))
		movers = append(movers, m)
	}
	// The kubelet packs: a and b share NUMA node 0 of x. Two GPUs and CPUs of one NUMA node are free on both.
	p := Problem{Nodes: nodes, Movers: movers, Pods: asking(pod(4, 0), pod(4, 0), pod(4, 0))}
	if r := find(t, p); text(p, r) != "a to y, b to y" && text(p, r) != "none" {
		t.Errorf("three whole NUMA nodes beside four halves: %s", text(p, r))
	}
	p.Pods = asking(pod(4, 0), pod(4, 0))
	if r := find(t, p); r.Plan == nil || len(r.Plan.Moves) > 0 || !r.Cheapest {
		t.Errorf("what fits needs no moves: %s", text(p, r))
	}
	p.Pods, p.Empty = nil, []int{0}
	if r := find(t, p); text(p, r) != "a to y, b to y" {
		t.Errorf("x is to be empty: %s", text(p, r))
	}
	p.Budgets = []int{1}
	for i := range p.Movers {
		p.Movers[i].Budgets = []int{0}
	}
	if r := find(t, p); r.Plan != nil {
		t.Errorf("a budget of one lets two go: %s", text(p, r))
	}
	p.Budgets[0] = 2
	p.Most = 1
	if r := find(t, p); r.Plan != nil {
		t.Errorf("at most one may go: %s", text(p, r))
	}
	p.Most = 2
	p.Confirm = func(*Plan) bool { return false }
	if r := find(t, p); r.Plan != nil {
		t.Errorf("a plan that is not confirmed: %s", text(p, r))
	}
}

// random draws a small cluster, some of whose pods may move.
func random(t testing.TB, r *rand.Rand) Problem {
	policies := []place.Policy{place.SingleNUMA, place.SingleNUMA, place.Restricted, place.BestEffort, place.None}
	var p Problem
	for i := range 2 + r.IntN(2) {
		p.Nodes = append(p.Nodes, node(t, string(rune('x'+i)), policies[r.IntN(len(policies))]))
	}
	draw := func() *whatif.Want {
		if r.IntN(6) == 0 {
			return shared(10 * (1 + r.Int64N(3)))
		}
		return pod(1+r.Int64N(3), max(0, r.Int64N(4)-1))
	}
	for i := range 6 + r.IntN(9) {
		m, ok := settle(p.Nodes, r.IntN(len(p.Nodes)), fmt.Sprint("p", i), draw())
		if !ok || r.IntN(4) == 0 {
			continue // it is not there, or may not move
		}
		m.Weight, m.Priority, m.Started = 1+r.Int64N(2), r.Int32N(2), r.Int64N(3)
		if r.IntN(4) == 0 {
			m.Budgets = []int{r.IntN(2)}
		}
		if len(p.Movers) < 7 {
			p.Movers = append(p.Movers, m)
		}
	}
	p.Budgets, p.Most = []int{r.IntN(3), r.IntN(3)}, 1+r.IntN(7)
	if r.IntN(5) == 0 {
		p.Empty = []int{r.IntN(len(p.Nodes))}
	} else {
		p.Pods = asking(slices.Repeat([]*whatif.Want{pod(2+r.Int64N(3), max(0, r.Int64N(4)-1))}, 1+r.IntN(2))...)
	}
	if len(p.Movers) > 0 && r.IntN(6) == 0 {
		p.Must = []int{r.IntN(len(p.Movers))}
	}
	for i := range p.Pods {
		p.Pods[i].Priority, p.Pods[i].Later = r.Int32N(3), r.IntN(3) == 0
	}
	inGangs(&p, r)
	return p
}

// inGangs makes gangs of some movers: of one only so many may move, and the other one moves as a whole, unless another
// pod of it may not move.
func inGangs(p *Problem, r *rand.Rand) {
	p.Gangs = []Gang{{Most: r.IntN(3)}, {Whole: true}}
	for i := range p.Movers {
		p.Movers[i].Gang = max(0, r.IntN(6)-3)
		if p.Movers[i].Gang == 3 {
			p.Movers[i].Gang = 2
		}
		if p.Movers[i].Gang == 2 {
			p.Gangs[1].Most++
		}
	}
	if r.IntN(6) == 0 {
		p.Gangs[1].Most++
	}
}

// oracle returns the cost of the cheapest set of movers after whose eviction everything has a place, by trying all sets
// and all places.
func oracle(p Problem) (best Cost, found bool) {
	for bits := range 1 << len(p.Movers) {
		var set []int
		for i := range p.Movers {
			if bits>>i&1 == 1 {
				set = append(set, i)
			}
		}
		if !needed(p, set) || found && p.Cost(set).Compare(best) >= 0 || !holds(p, set) {
			continue
		}
		best, found = p.Cost(set), true
	}
	return best, found
}

// needed reports whether a set is within the bounds, and has all movers of the nodes that are to be empty.
func needed(p Problem, set []int) bool {
	evicted, left := map[int]int{}, map[int]int{}
	for _, i := range set {
		left[p.Movers[i].Gang]++
		for _, b := range p.Movers[i].Budgets {
			evicted[b]++
		}
	}
	for b, n := range evicted {
		if n > p.Budgets[b] {
			return false
		}
	}
	for i, g := range p.Gangs {
		if left[i+1] > g.Most || g.Whole && left[i+1] > 0 && left[i+1] < g.Most {
			return false
		}
	}
	for i, m := range p.Movers {
		if (slices.Contains(p.Empty, m.Node) || slices.Contains(p.Must, i)) && !slices.Contains(set, i) {
			return false
		}
	}
	return len(set) <= p.Most
}

// holds reports whether everything has a place without a set.
func holds(p Problem, set []int) bool {
	nodes, wants := after(p, set)
	return settled(p, nodes, wants)
}

// after returns the nodes without a set, and the pods that get places then, in their order.
func after(p Problem, set []int) (nodes []whatif.Node, wants []*whatif.Want) {
	nodes = slices.Clone(p.Nodes)
	for _, i := range set {
		n := &nodes[p.Movers[i].Node]
		if !p.Movers[i].Want.Pod.Plain() {
			n.State = n.State.Without(p.Movers[i].Pod.UID)
		}
		used := whatif.Amounts{}.Add(n.Used)
		for name, x := range p.Movers[i].Needs {
			used[name] -= x
		}
		n.Used = used
	}
	type pod struct {
		want               *whatif.Want
		late, rank, second int // whether it is later than all, its priority, and whether it is a successor
		started            int64
	}
	var all []pod
	for _, g := range p.Pods {
		x := pod{g.Want, 0, -int(g.Priority), 0, 0}
		if g.Later {
			x.late, x.rank = 1, 0
		}
		all = append(all, x)
	}
	for _, i := range set {
		m := &p.Movers[i]
		all = append(all, pod{m.Want, 0, -int(m.Priority), 1, m.Started})
	}
	slices.SortStableFunc(all, func(a, b pod) int {
		return cmp.Or(a.late-b.late, a.rank-b.rank, a.second-b.second, int(a.started-b.started))
	})
	for _, x := range all {
		wants = append(wants, x.want)
	}
	return nodes, wants
}

func settled(p Problem, nodes []whatif.Node, wants []*whatif.Want) bool {
	if len(wants) == 0 {
		return true
	}
	w := wants[0]
	for at := range nodes {
		n := nodes[at]
		if slices.Contains(p.Empty, at) || len(n.Lacks(w.Needs)) > 0 {
			continue
		}
		next, ok := n.State, true
		if !w.Pod.Plain() {
			next, ok = n.State.Join(id(fmt.Sprint("back", len(wants))), w.Pod, w.Demand)
		}
		if !ok {
			continue
		}
		rest := slices.Clone(nodes)
		rest[at].State, rest[at].Used = next, n.Used.Add(w.Needs)
		if settled(p, rest, wants[1:]) {
			return true
		}
	}
	return false
}

// Compared with all sets and all places of small clusters, no plan costs more, and none is missing, unless the result
// is not certain: places for pods that hold nothing exclusively are not searched.
func TestPlansAreTheCheapest(t *testing.T) {
	plans, moves, uncertain, gangs := 0, 0, 0, 0
	for k := range uint64(*cases) {
		p := random(t, rand.New(rand.NewPCG(*seed+k, 7)))
		got := find(t, p)
		want, ok := oracle(p)
		plain := slices.ContainsFunc(p.Movers, func(m Mover) bool { return m.Want.Pod.Plain() })
		switch {
		case got.Plan != nil && (!ok || got.Plan.Cost.Compare(want) < 0),
			got.Cheapest && ((got.Plan != nil) != ok || ok && got.Plan.Cost != want):
			t.Fatalf("seed %d: found %s, certainly the cheapest %t, and an exhaustive search %t, %+v", *seed+k, text(p, got),
				got.Cheapest, ok, want)
		case !plain && !got.Cheapest || got.Spent:
			t.Fatalf("seed %d: cheapest %t, spent %t", *seed+k, got.Cheapest, got.Spent)
		}
		if !got.Cheapest {
			uncertain++
		}
		if got.Plan == nil {
			continue
		}
		plans++
		moves += len(got.Plan.Moves)
		if slices.ContainsFunc(got.Plan.Moves, func(m Move) bool { return p.Movers[m.Mover].Gang == 2 }) {
			gangs++
		}
		verify(t, p, got.Plan)
	}
	t.Logf("%d clusters, %d plans, %d with a gang, %d moves; %d answers are not certain", *cases, plans, gangs, moves,
		uncertain)
	if plans < *cases/4 || moves < *cases/8 || gangs < *cases/100 {
		t.Errorf("only %d plans and %d moves: the clusters test too little", plans, moves)
	}
}

// verify fails if a pod has no place in a plan, or one on a node that is to be empty.
func verify(t *testing.T, p Problem, plan *Plan) {
	t.Helper()
	if len(plan.Placed) != len(p.Pods) {
		t.Errorf("%d of %d pods have places", len(plan.Placed), len(p.Pods))
	}
	all := slices.Clone(plan.Placed)
	for _, m := range plan.Moves {
		all = append(all, m.To)
	}
	for _, x := range all {
		if x.Node < 0 || slices.Contains(p.Empty, x.Node) {
			t.Errorf("%s is on node %d", x.Pod.Name, x.Node)
		}
	}
}

// On larger clusters plans are compared with the least that could be enough for the pod if those that move needed no
// places.
func TestPlansOfLargerClusters(t *testing.T) {
	found, cheapest := 0, 0
	for k := range uint64(40) {
		r := rand.New(rand.NewPCG(k, 9))
		var p Problem
		for i := range 12 {
			p.Nodes = append(p.Nodes, node(t, fmt.Sprint("n", i), place.SingleNUMA))
		}
		for i := range 50 {
			if m, ok := settle(p.Nodes, r.IntN(12), fmt.Sprint("p", i), pod(1+r.Int64N(3), r.Int64N(2))); ok {
				p.Movers = append(p.Movers, m)
			}
		}
		p.Pods = asking(pod(4, 2))
		got := find(t, p)
		if got.Plan == nil {
			continue
		}
		found++
		verify(t, p, got.Plan)
		if got.Cheapest {
			cheapest++
		}
	}
	t.Logf("%d of 40 have a plan, %d certainly the cheapest one", found, cheapest)
	if found < 20 || cheapest < found/2 {
		t.Errorf("%d of 40 have a plan, %d certainly the cheapest one", found, cheapest)
	}
}

// The search that large clusters get finds nearly all plans of small ones, and most of them are the cheapest.
func TestTheSearchOfLargeClusters(t *testing.T) {
	there, found, cheapest, proved := 0, 0, 0, 0
	for k := range uint64(*cases) {
		p := random(t, rand.New(rand.NewPCG(*seed+k, 11)))
		p.Trials, p.Looks = 1000, 1_000_000
		want := find(t, p)
		if want.Plan == nil || len(want.Plan.Moves) == 0 {
			continue
		}
		there++
		s, base := newSearch(p, func() error { return nil })
		s.limit = p.Trials
		first, err := s.try(base)
		if err == nil {
			err = s.guided(base, first)
		}
		switch {
		case err != nil:
			t.Fatal(err)
		case first.plan != nil:
			found, cheapest = found+1, cheapest+1
		case s.best == nil:
		case s.best.Cost.Compare(want.Plan.Cost) < 0:
			t.Fatalf("seed %d: %+v costs less than the cheapest %+v", *seed+k, s.best.Cost, want.Plan.Cost)
		default:
			found++
			is, err := s.proved(base)
			if err != nil || is && s.best.Cost != want.Plan.Cost {
				t.Fatalf("seed %d: %+v is proved to be the cheapest (%v), and %+v is", *seed+k, s.best.Cost, err, want.Plan.Cost)
			}
			if is {
				proved++
			}
			if s.best.Cost == want.Plan.Cost {
				cheapest++
			}
		}
	}
	t.Logf("%d plans: found %d, of which %d are the cheapest, %d by proof", there, found, cheapest, proved)
	if found < there*9/10 || cheapest < there*8/10 {
		t.Errorf("of %d plans %d were found, %d of them the cheapest", there, found, cheapest)
	}
}

// Room for several pods is made for one after the other where a search for all of them at once would take too long.
func TestRoomForSeveralPods(t *testing.T) {
	var p Problem
	for at := range 24 { // two CPUs are free on one NUMA node, and one on the other
		p.Nodes = append(p.Nodes, node(t, fmt.Sprint("n", at), place.SingleNUMA))
		for k, cpus := range []int64{2, 3} {
			m, ok := settle(p.Nodes, at, fmt.Sprint("p", at, "-", k), pod(cpus, 0))
			if !ok {
				t.Fatal("the pod does not fit")
			}
			p.Movers = append(p.Movers, m)
		}
	}
	p.Pods = asking(pod(4, 0), pod(4, 0), pod(4, 0), pod(4, 0), pod(4, 0))
	got := find(t, p)
	if got.Plan == nil || len(got.Plan.Moves) != 5 {
		t.Fatalf("five pods need five moves: %s", text(p, got))
	}
	verify(t, p, got.Plan)
	if !holds(p, movers(got.Plan)) {
		t.Error("the plan does not hold")
	}
	t.Logf("%d moves, forced %t", len(got.Plan.Moves), got.Plan.Forced)
}
