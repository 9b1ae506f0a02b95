package defrag

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// workload returns the usual workload of some pods, and has the scheduler of a problem choose nodes by it.
func workload(p *Problem, pods ...*whatif.Want) (out Usual) {
	r := score.NewRecent()
	for i, w := range pods {
		r.Add(fmt.Sprint("past", i), w.Pod)
	}
	mix := r.Mix()
	p.Rules.Strategy.Mix = mix
	for i, worth := range mix.Worths() {
		out.Shapes = append(out.Shapes, Shape{Want: whatif.OfShape(mix.Shares()[i].Pod), Worth: worth})
	}
	return out
}

// randomUsual draws a small cluster and a usual workload.
func randomUsual(t testing.TB, r *rand.Rand) (Problem, Usual) {
	p := random(t, r)
	p.Pods, p.Empty, p.Must = nil, nil, nil
	var pods []*whatif.Want
	for range 1 + r.IntN(4) {
		w := pod(1+r.Int64N(4), max(0, r.Int64N(5)-2))
		pods = append(pods, slices.Repeat([]*whatif.Want{w}, 1+r.IntN(3))...)
	}
	w := workload(&p, pods...)
	if r.IntN(4) == 0 {
		w.Closed = []int{r.IntN(len(p.Nodes))}
	}
	return p, w
}

// most returns how much the fitting pods can be worth, at which cost, by trying all sets.
func most(t *testing.T, p Problem, w Usual) (worth int64, cost Cost, fits []int) {
	now := fitting(p.Nodes, w)
	worth, fits = worthOf(w, now), now
	for bits := 1; bits < 1<<len(p.Movers); bits++ {
		var set []int
		for i := range p.Movers {
			if bits>>i&1 == 1 {
				set = append(set, i)
			}
		}
		if !needed(p, set) || slices.ContainsFunc(set, func(i int) bool { // pods move one after the other
			return p.Movers[i].Gang == 2
		}) {
			continue
		}
		got := moveAll(t, p, set)
		if got == nil {
			continue
		}
		fit := fitting(got, w)
		loses := false
		for i := range fit {
			loses = loses || fit[i] < now[i]
		}
		x := worthOf(w, fit)
		if loses || x < worth || x == worth && p.Cost(set).Compare(cost) >= 0 {
			continue
		}
		worth, cost, fits = x, p.Cost(set), fit
	}
	return worth, cost, fits
}

// moveAll returns the nodes once a set has moved; nil if a successor has no place.
func moveAll(t *testing.T, p Problem, set []int) []whatif.Node {
	t.Helper()
	order := slices.Clone(set)
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := p.Movers[i], p.Movers[j]
		if a.Priority != b.Priority {
			return int(b.Priority - a.Priority)
		}
		return int(a.Started - b.Started)
	})
	nodes := slices.Clone(p.Nodes)
	for _, i := range order {
		m, uid := p.Movers[i], "moved "+p.Movers[i].Pod.UID
		open := slices.Clone(nodes)
		leave(&open[m.Node], m)
		for at := range open {
			before := nodes[at]
			open[at].Gone = !join(&before, uid, m.Want)
		}
		one, err := whatif.New(open, p.Rules).Fill(m.Want, 1, func(int) state.PodID { return id(uid) },
			func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if len(one.Placed) == 0 {
			return nil
		}
		leave(&nodes[m.Node], m)
		if !join(&nodes[one.Placed[0].Node], uid, m.Want) {
			t.Fatal("a pod does not fit where it was placed")
		}
	}
	return nodes
}

func leave(n *whatif.Node, m Mover) {
	if !m.Want.Pod.Plain() {
		n.State = n.State.Without(m.Pod.UID)
	}
	used := whatif.Amounts{}.Add(n.Used)
	for name, x := range m.Needs {
		used[name] -= x
	}
	n.Used = used
}

// join puts a pod on a node, and reports whether it fits there.
func join(n *whatif.Node, uid string, w *whatif.Want) bool {
	if len(n.Lacks(w.Needs)) > 0 {
		return false
	}
	if !w.Pod.Plain() {
		next, ok := n.State.Join(id(uid), w.Pod, w.Demand)
		if !ok {
			return false
		}
		n.State = next
	}
	n.Used = n.Used.Add(w.Needs)
	return true
}

// fitting returns how many pods of each shape fit, by putting them there.
func fitting(nodes []whatif.Node, w Usual) (out []int) {
	for _, s := range w.Shapes {
		sum := 0
		for at, n := range nodes {
			for k := 0; !slices.Contains(w.Closed, at) && join(&n, fmt.Sprint("usual", k), s.Want); k++ {
				sum++
			}
		}
		out = append(out, sum)
	}
	return out
}

func worthOf(w Usual, fit []int) (sum int64) {
	for i, n := range fit {
		sum += int64(n) * w.Shapes[i].Worth
	}
	return sum
}

func findUsual(t *testing.T, p Problem, w Usual) (Result, []Fit) {
	t.Helper()
	if p.Trials == 0 {
		p.Trials = 2000
	}
	p.Looks = 1_000_000
	got, fits, err := FindUsual(p, w, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return got, fits
}

// Of all sets of movers of small clusters, none brings more of the usual workload than the plan, none that brings as
// much costs less, and no shape fits less often than before.
func TestPlansMakeMostRoomForTheUsualWorkload(t *testing.T) {
	plans, moves, together := 0, 0, 0
	for k := range uint64(*cases) {
		p, w := randomUsual(t, rand.New(rand.NewPCG(*seed+k, 13)))
		got, fits := findUsual(t, p, w)
		worth, cost, fit := most(t, p, w)
		var after []int
		for i, f := range fits {
			if after = append(after, f.After); f.After < f.Before {
				t.Errorf("seed %d: of shape %d, %d pods fit, and %d before", *seed+k, i, f.After, f.Before)
			}
		}
		if !got.Cheapest || got.Spent || worthOf(w, after) != worth || got.Plan.Cost != cost {
			t.Fatalf("seed %d: %s: %v fit, worth %d at %+v, certain %t; an exhaustive search finds %v, worth %d at %+v",
				*seed+k, text(p, got), fits, worthOf(w, after), got.Plan.Cost, got.Cheapest, fit, worth, cost)
		}
		if n := len(got.Plan.Moves); n > 0 {
			plans, moves = plans+1, moves+n
			if n > 1 {
				together++
			}
		}
	}
	t.Logf("%d clusters, %d plans, %d moves; %d plans with several moves", *cases, plans, moves, together)
	if plans < *cases/8 || together < *cases/100 {
		t.Errorf("only %d plans, %d with several moves: the clusters test too little", plans, together)
	}
}

// The search that large clusters get finds most of what is possible in small ones.
func TestTheSearchOfLargeClustersForTheUsualWorkload(t *testing.T) {
	possible, found, best, there := int64(0), int64(0), 0, 0
	for k := range uint64(*cases) {
		p, w := randomUsual(t, rand.New(rand.NewPCG(*seed+k, 17)))
		p.Trials, p.Looks = 2000, 1_000_000
		want, fits := findUsual(t, p, w)
		if len(want.Plan.Moves) == 0 {
			continue
		}
		there++
		u, err := newUsual(p, w, func() error { return nil })
		if err == nil {
			err = u.greedy()
		}
		if err == nil {
			err = u.leaner()
		}
		if err != nil {
			t.Fatal(err)
		}
		all := int64(0)
		for i, f := range fits {
			all += int64(f.After-f.Before) * w.Shapes[i].Worth
		}
		got := u.top.worth - u.still.worth
		if got > all {
			t.Fatalf("seed %d: %d is more than the most possible %d", *seed+k, got, all)
		}
		if possible, found = possible+all, found+got; got == all && u.top.plan.Cost == want.Plan.Cost {
			best++
		}
	}
	t.Logf("of %d plans it found %d as good, and %d %% of what all bring", there, best, 100*found/max(1, possible))
	if best < there*7/10 || found < possible*8/10 {
		t.Errorf("of %d plans it found only %d as good, and %d of %d", there, best, found, possible)
	}
}

// Where fewer pods of a shape have to fit than now, a plan is at least as good, and that many fit after it.
func TestTheRestOfAPlanMayUseWhatItsBeginningBrought(t *testing.T) {
	better := 0
	for k := range uint64(200) {
		p, w := randomUsual(t, rand.New(rand.NewPCG(*seed+k, 23)))
		_, strict := findUsual(t, p, w)
		for i := range w.Shapes {
			least := max(0, strict[i].Before-1)
			w.Shapes[i].Least = &least
		}
		_, free := findUsual(t, p, w)
		gain := int64(0)
		for i, f := range free {
			gain += int64(f.After-strict[i].After) * w.Shapes[i].Worth
			if f.After < min(f.Before, *w.Shapes[i].Least) {
				t.Errorf("seed %d: %d pods of shape %d fit, at least %d have to", *seed+k, f.After, i, *w.Shapes[i].Least)
			}
		}
		if gain < 0 {
			t.Errorf("seed %d: the plan is worse: %v, %v", *seed+k, free, strict)
		}
		if gain > 0 {
			better++
		}
	}
	if better == 0 {
		t.Errorf("seed %d: no plan used it", *seed)
	}
}

// A search that ends at its bound reports it, and what it has found holds.
func TestABoundedSearchForTheUsualWorkload(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 19))
	var p Problem
	for i := range 30 {
		p.Nodes = append(p.Nodes, node(t, fmt.Sprint("n", i), place.SingleNUMA))
	}
	for i := range 120 {
		m, ok := settle(p.Nodes, r.IntN(30), fmt.Sprint("p", i), pod(1+r.Int64N(3), r.Int64N(2)))
		if ok && r.IntN(2) == 0 {
			p.Movers = append(p.Movers, m)
		} else if ok {
			leave(&p.Nodes[m.Node], m)
		}
	}
	p.Most = 10
	w := workload(&p, pod(4, 0), pod(4, 2), pod(2, 0))
	gained := 0
	for _, p.Trials = range []int{1, 10, 100, 1000} {
		got, fits := findUsual(t, p, w)
		if got.Cheapest || !got.Spent && p.Trials <= 10 {
			t.Errorf("seed %d, with %d trials: certain %t, spent %t", *seed, p.Trials, got.Cheapest, got.Spent)
		}
		var set []int
		for _, m := range got.Plan.Moves {
			set = append(set, m.Mover)
		}
		after := fitting(p.Nodes, w)
		if len(set) > 0 {
			after = fitting(moveAll(t, p, set), w)
		}
		gain := 0
		for i, f := range fits {
			gain += f.After - f.Before
			if f.After != after[i] || f.After < f.Before || len(set) > p.Most {
				t.Errorf("seed %d, with %d trials, %d moves: of shape %d fit %+v, counted %d", *seed, p.Trials, len(set), i, f,
					after[i])
			}
		}
		gained = gain
	}
	if gained == 0 {
		t.Errorf("seed %d: nothing was gained", *seed)
	}
}

// Two halves on two nodes become one whole, by one move; a node that takes no pods counts for nothing.
func TestRoomForTheUsualWorkload(t *testing.T) {
	machine, _, _ := strings.Cut(small, "device")
	nodes := []whatif.Node{nodeOf(t, machine, "x", place.SingleNUMA), nodeOf(t, machine, "y", place.SingleNUMA)}
	var p Problem
	for at, pods := range [][]int64{{2, 3}, {2, 3}} {
		for k, cpus := range pods {
			m, ok := settle(nodes, at, fmt.Sprint(nodes[at].Name, k), pod(cpus, 0))
			if !ok {
				t.Fatal("the pod does not fit")
			}
			p.Movers = append(p.Movers, m)
		}
	}
	p.Nodes, p.Most = nodes, 5
	w := workload(&p, slices.Repeat([]*whatif.Want{pod(4, 0)}, 20)...)
	got, fits := findUsual(t, p, w)
	if len(got.Plan.Moves) != 1 || fits[0] != (Fit{0, 1}) {
		t.Errorf("%s: %v fit", text(p, got), fits)
	}
	w.Closed = []int{p.Movers[got.Plan.Moves[0].Mover].Node}
	if got, fits = findUsual(t, p, w); len(got.Plan.Moves) == 1 && slices.Contains(w.Closed,
		p.Movers[got.Plan.Moves[0].Mover].Node) {
		t.Errorf("%s makes room on a node that takes no pods: %v", text(p, got), fits)
	}
	p.Most, p.Budgets = 1, []int{0}
	for i := range p.Movers {
		p.Movers[i].Budgets = []int{0}
	}
	if got, fits = findUsual(t, p, w); len(got.Plan.Moves) > 0 {
		t.Errorf("no budget allows an eviction: %s, %v", text(p, got), fits)
	}
}
