package sim

import (
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/score"
)

// Contender is a way of choosing nodes.
type Contender struct {
	Name string // in full, such as KubeMost
	Head string // shorter, for the head of a table; line breaks separate its lines
	kind kind
	// strategy is the score. Of the kinds charges and blind only LeastAllocated and MostAllocated exist.
	strategy score.Strategy
	moves    bool // pods move so that others get room; see moves.go
}

// Names of contenders.
const (
	// Tenon is Tenon's plugin with its own score, TenonMost the same with the score MostAllocated.
	Tenon     = "Tenon"
	TenonMost = "Tenon MostAllocated"
	// TenonMoves is Tenon, and moves pods; see [Options.Moves].
	TenonMoves = "Tenon with moves"
	// Match is a model of scheduler-plugins' plugin of this name with its default score, MatchMost the same with the
	// score that packs; see charge.go.
	Match     = "NodeResourceTopologyMatch"
	MatchMost = "NodeResourceTopologyMatch MostAllocated"
	// KubeLeast is kube-scheduler with its default score, KubeMost with the score that packs nodes.
	KubeLeast = "kube-scheduler LeastAllocated"
	KubeMost  = "kube-scheduler MostAllocated"
)

type kind int

const (
	foresees kind = iota // predicts what every kubelet will do, with core/place and core/score
	charges              // subtracts a pod from every NUMA node until the node reports; see charge.go
	blind                // uses amounts of whole nodes; see blind.go
)

// ReportSeconds is the interval of nodes' reports to the contender that charges every NUMA node: the default of the
// exporters that are used with it.
const ReportSeconds = 60

// Contenders returns all contenders, Tenon's own strategy first.
func Contenders() []Contender {
	return []Contender{
		{Tenon, "Tenon", foresees, score.Strategy{Type: score.Tenon}, false},
		{"Tenon LeastAllocated", "Tenon\nLeast\nAlloc.", foresees, score.Strategy{Type: score.LeastAllocated}, false},
		{TenonMost, "Tenon\nMost\nAlloc.", foresees, score.Strategy{Type: score.MostAllocated}, false},
		{"Tenon BalancedAllocation", "Tenon\nBalanced\nAlloc.", foresees, score.Strategy{Type: score.BalancedAllocation},
			false},
		{"Tenon LeastNUMANodes", "Tenon\nLeast\nNUMA", foresees, score.Strategy{Type: score.LeastNUMANodes}, false},
		{Match, "NRT\nMatch", charges, score.Strategy{Type: score.LeastAllocated}, false},
		{KubeLeast, "kube\nLeast\nAlloc.", blind, score.Strategy{Type: score.LeastAllocated}, false},
		{KubeMost, "kube\nMost\nAlloc.", blind, score.Strategy{Type: score.MostAllocated}, false},
	}
}

// onDemand returns the contenders that only their name selects. With them, tables would be too wide for a terminal.
func onDemand() []Contender {
	return []Contender{
		{TenonMoves, "Tenon\nmoves", foresees, score.Strategy{Type: score.Tenon}, true},
		{MatchMost, "NRT\nMost\nAlloc.", charges, score.Strategy{Type: score.MostAllocated}, false},
	}
}

// Named returns the contender of a name. ok is false if there is none.
func Named(name string) (c Contender, ok bool) {
	for _, c := range slices.Concat(Contenders(), onDemand()) {
		if c.Name == name {
			return c, true
		}
	}
	return Contender{}, false
}

// picker chooses nodes. The replay calls it for each event.
type picker interface {
	// pick returns the node for a pod of a shape, among some nodes, or among all if among is nil. ok is false if no
	// node seems to have room.
	pick(shape int, among []int) (node int, ok bool)
	// podArrived records the arrival of a pod of a shape.
	podArrived(shape int)
	// podSent records that a pod was sent to a node, even if its kubelet refused it.
	podSent(node, shape int)
	// podLeft records that a pod departed from a node.
	podLeft(node int)
	// nodesReported processes reports of all nodes, and returns the nodes with new information.
	nodesReported() []int
}

func newPicker(c *cluster, k Contender, usual []int64, r *chance) picker {
	switch k.kind {
	case charges:
		return newCharging(c, r, k.strategy.Type == score.MostAllocated)
	case blind:
		return newBlindly(c, k.strategy.Type, r)
	}
	f := &foresight{cluster: c, strategy: k.strategy, chance: r, recent: score.NewRecent()}
	f.remember(usual)
	return f
}

// choice keeps the best node so far. Among equal ones it chooses at random with equal probability, as kube-scheduler
// does (pkg/scheduler/schedule_one.go, selectHost).
type choice struct {
	chance *chance
	node   int
	score  int64
	equals int64
}

// offer adds equal nodes with a score; the highest score is best.
func (c *choice) offer(score int64, nodes ...int) {
	if c.equals == 0 || score > c.score {
		c.score, c.equals = score, 0
	} else if score < c.score {
		return
	}
	c.equals += int64(len(nodes))
	if n := c.chance.below(c.equals); n < int64(len(nodes)) {
		c.node = nodes[n]
	}
}

// foresight predicts with place what the nodes will do, and chooses the best node with score.
type foresight struct {
	cluster  *cluster
	strategy score.Strategy
	chance   *chance
	recent   *score.Recent // the pods that have arrived
	asked    int           // number of arrivals
	mixes    int           // number of new mixes
}

// remember records score.Remembered arrivals before the trace begins: the shapes alternate in the proportions of
// usual. It records none if all numbers are 0.
func (f *foresight) remember(usual []int64) {
	total := int64(0)
	for _, n := range usual {
		total += n
	}
	if total == 0 {
		return
	}
	const stride = 389 // coprime to Remembered, so that every turn comes once
	for i := range int64(score.Remembered) {
		at := i * stride % score.Remembered * total / score.Remembered
		shape := 0
		for ; at >= usual[shape]; shape++ {
			at -= usual[shape]
		}
		f.podArrived(shape)
	}
}

func (f *foresight) pick(shape int, among []int) (int, bool) {
	best := choice{chance: f.chance}
	if among == nil {
		for _, s := range f.cluster.live {
			if a := f.cluster.answer(s, shape); a.fits {
				best.offer(-f.cost(s, a, shape), s.nodes...)
			}
		}
	}
	for _, n := range among {
		s := f.cluster.nodes[n].state
		if a := f.cluster.answer(s, shape); a.fits {
			best.offer(-f.cost(s, a, shape), n)
		}
	}
	return best.node, best.equals > 0
}

// cost returns the cached cost of an answer, and computes it again after a change of the mix. Pods that no node
// aligns get kube-scheduler's own score, since the plugin does not score them.
func (f *foresight) cost(s *state, a *answer, shape int) int64 {
	if a.priced == f.mixes+1 {
		return a.cost
	}
	c := f.cluster
	if pod := &c.trace.Shapes[shape].Pod; pod.Plain() {
		a.cost = -leastAllocated(c.fleets[s.fleet], s.asked, c.requests[shape], c.memory)
	} else {
		strategy := f.strategy
		strategy.Mix = f.recent.Mix()
		a.cost = strategy.Cost(s.usage, pod, a.verdict, false)
	}
	a.priced = f.mixes + 1
	return a.cost
}

// podArrived records the pod for Tenon's own strategy; the other strategies use no mix.
func (f *foresight) podArrived(shape int) {
	if f.strategy.Type != score.Tenon {
		return
	}
	if f.asked++; f.recent.Add(strconv.Itoa(f.asked), &f.cluster.trace.Shapes[shape].Pod) {
		f.mixes++
	}
}

func (f *foresight) podSent(int, int)     {}
func (f *foresight) podLeft(int)          {}
func (f *foresight) nodesReported() []int { return nil }
