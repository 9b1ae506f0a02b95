// Package whatif places pods that are not there on a cluster as it is: how many fit, where, and what stops
// the next one.
//
// [Rules.Judge] is the one answer to "does this pod fit on this node, and why not": explain, simulate and tests ask it.
// A [Plan] is the cluster's nodes and what has been placed on them so far. It answers as the scheduler would:
// a node's own verdict ([ledger.Node.Place]) in all its possible states, the plain amounts that are left, and
// of the nodes that fit the one that costs least. Invariant: what a plan was made of is never changed, and the
// same pods in the same order give the same places. The package refuses to know why a pod may not go to a
// node for other reasons than amounts and NUMA nodes: the caller says so ([Bars], [Peers]).
package whatif

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// Amounts are plain amounts by resource, as kube-scheduler counts them: "cpu" in thousandths, "pods" and
// devices in pieces, memory and storage in bytes.
type Amounts map[string]int64

// MaxAmount bounds every amount, so that sums over any number of pods on a node stay within 64 bits.
const MaxAmount = 1 << 50

// Add returns the sum, each amount at most [MaxAmount].
func (a Amounts) Add(b Amounts) Amounts {
	out := maps.Clone(a)
	if out == nil {
		out = Amounts{}
	}
	for name, n := range b {
		out[name] = min(out[name]+n, MaxAmount)
	}
	return out
}

// text is equal exactly for equal amounts.
func (a Amounts) text() string {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(a)) {
		b = append(append(b, name...), '=')
		b = append(strconv.AppendInt(b, a[name], 10), ';')
	}
	return string(b)
}

// Node is one node at one moment of a simulation.
type Node struct {
	Name string
	// State is what is known of its NUMA nodes and of who holds what; nil where nothing is.
	State *ledger.Node
	// Allocatable is what all pods together may ask of the node, NUMA nodes apart; Used is what they have asked
	// for. Both have the number of pods as "pods". They are never changed.
	Allocatable, Used Amounts
	// Pods are the pods that Used counts, as far as they are known one by one. They are never changed.
	Pods []Resident
	// Gone: the node is there no more, and takes nothing.
	Gone bool
}

// Resident is a pod on a node, and what it asks of the node.
type Resident struct {
	Pod   ledger.PodID
	Needs Amounts
	// Stays: it ends with the node only, as pods of DaemonSets do.
	Stays bool
}

// Left returns how much of a resource pods may still ask for.
func (n *Node) Left(resource string) int64 { return max(0, n.Allocatable[resource]-n.Used[resource]) }

// Trust says whether a node takes pods that need alignment though too little is known of it.
type Trust int

// The degrees of trust, by the names and meanings of the scheduler's arguments (docs/reference/scheduler.md).
const (
	Allow Trust = iota
	AllowWithoutDemand
	Refuse
)

// Rules are the scheduler's own: its arguments, and how it scores. A scheduler learns what its cluster usually
// runs while it schedules; here that is known beforehand ([Usual]).
type Rules struct {
	Unknown  Trust // nodes of which nothing is known
	Coarse   Trust // nodes that tell amounts only
	Strategy score.Strategy
}

// Bars says why a shape may not go to a node at all, by position of the node, none where it may: what others than the
// kubelet's managers say, amounts apart. Shapes with the same Bars are barred alike.
type Bars struct{ Why [][]place.Reason }

func (b *Bars) at(i int) []place.Reason {
	if b == nil || i >= len(b.Why) {
		return nil
	}
	return b.Why[i]
}

// Want is what pods of one shape want of a node.
type Want struct {
	Pod    *place.Pod
	Demand place.Demand
	// Needs are the plain amounts, among them 1 of "pods".
	Needs Amounts
	// Type is how nodes are scored for the pod, where it says so itself; nil: as the rules say.
	Type *score.Type
	// Bars says where it may not go; nil: nowhere.
	Bars *Bars
	// Peers is what it and other pods ask of each other; nil: nothing.
	Peers Peers
}

// Plan is a cluster on which pods are placed, one after the other. It is not for several goroutines.
type Plan struct {
	rules  Rules
	before []Node
	nodes  []Node
	// changes counts, by position, how often a node has changed.
	changes []uint32
	costs   map[key]*costs
	settled []settled
}

// key names a shape: wants with equal keys cost the same on every node.
type key struct {
	shape, needs string
	demand       place.Demand
	scored       score.Type
	bars         *Bars
}

// costs are what a shape costs on every node: what was computed holds until the node changes.
type costs struct {
	of []int64
	at []uint32 // the node's changes when it was computed, and one; 0: not computed
}

const (
	// refused is the cost where a pod does not fit.
	refused = math.MaxInt64
	// maxShapes bounds the memory: 12 bytes for each shape and node. Forgetting costs only time.
	maxShapes = 256
)

// New returns a plan on which nothing is placed yet. The positions of nodes are those of Bars.
func New(nodes []Node, r Rules) *Plan {
	return &Plan{rules: r, before: nodes, nodes: slices.Clone(nodes), changes: make([]uint32, len(nodes)),
		costs: map[key]*costs{}}
}

// Before returns the nodes that the plan was made of, by position; Nodes returns them as they are now. The
// caller must not change them.
func (p *Plan) Before() []Node { return p.before }

// Nodes is the other half of Before.
func (p *Plan) Nodes() []Node { return p.nodes }

// Changed returns the positions of the nodes that something was placed on, ascending.
func (p *Plan) Changed() (out []int) {
	for i, n := range p.changes {
		if n > 0 {
			out = append(out, i)
		}
	}
	return out
}

// Placement is a pod and where it was placed.
type Placement struct {
	Pod  ledger.PodID
	Node int // position
	// Holdings are what the node would give the pod; empty where it gives nothing of its own.
	Holdings []place.Holding
	// Blind: nothing is known of the node's NUMA nodes, so nobody knows whether its kubelet would take the pod.
	Blind bool
}

// Outcome is what became of pods of one shape.
type Outcome struct {
	Placed []Placement // in order
	// Refusals say why the next pod has no place; empty where all have one.
	Refusals []Refusal
}

// Fill places up to count pods of a shape, the i-th under the name that name(i) returns, and stops at the
// first for which no node has room: whatever is equal to it has none either. step is called before every pod
// and may end it all with an error.
func (p *Plan) Fill(w *Want, count int, name func(i int) ledger.PodID, step func() error) (out Outcome, err error) {
	c, around := p.shape(w), p.around(w)
	for i := range count {
		if err := step(); err != nil {
			return out, err
		}
		at := p.cheapest(c, w, around)
		if at < 0 {
			out.Refusals = p.refusals(w, around, p.all())
			return out, nil
		}
		out.Placed = append(out.Placed, p.put(at, w, name(i)))
		p.settle(w, around, at)
	}
	return out, nil
}

// Each places one pod on every node that w.Bars does not rule out, as a DaemonSet does. wanted is the number of these
// nodes. name returns the id of the pod for the i-th node of the plan. step is called before each node; its error ends
// the call. The refusals are those of all nodes that have no room.
func (p *Plan) Each(w *Want, name func(i int) ledger.PodID, step func() error) (out Outcome, wanted int, err error) {
	var full []int
	around := p.around(w)
	for i := range p.nodes {
		if p.nodes[i].Gone || len(w.Bars.at(i)) > 0 {
			continue
		}
		if err := step(); err != nil {
			return out, wanted, err
		}
		if wanted++; around != nil && !around.Lets(i) || p.cost(i, w) == refused {
			full = append(full, i)
			continue
		}
		out.Placed = append(out.Placed, p.put(i, w, name(i)))
		p.settle(w, around, i)
	}
	out.Refusals = p.refusals(w, around, full)
	return out, wanted, nil
}

func (p *Plan) all() (out []int) {
	for i := range p.nodes {
		out = append(out, i)
	}
	return out
}

// put places a pod on a node that has room for it.
func (p *Plan) put(i int, w *Want, id ledger.PodID) Placement {
	n := &p.nodes[i]
	out := Placement{Pod: id, Node: i, Blind: n.State == nil && !w.Pod.Plain()}
	if n.State != nil && !w.Pod.Plain() {
		if next, ok := n.State.With(id, w.Pod); ok {
			n.State = next
			out.Holdings = next.Entries[len(next.Entries)-1].Holdings
		}
	}
	n.Used = n.Used.Add(w.Needs)
	p.changes[i]++
	return out
}

func (p *Plan) shape(w *Want) *costs {
	k := key{w.Pod.Shape(), w.Needs.text(), w.Demand, p.strategy(w).Type, w.Bars}
	c := p.costs[k]
	if c == nil {
		if len(p.costs) >= maxShapes {
			clear(p.costs)
		}
		c = &costs{make([]int64, len(p.nodes)), make([]uint32, len(p.nodes))}
		p.costs[k] = c
	}
	return c
}

// cheapest returns the position of the node that costs least, the first of equal ones; -1: none has room.
func (p *Plan) cheapest(c *costs, w *Want, around Neighbours) int {
	best, at := int64(refused), -1
	for i := range p.nodes {
		if c.at[i] != p.changes[i]+1 {
			c.of[i], c.at[i] = p.cost(i, w), p.changes[i]+1
		}
		if c.of[i] < best && (around == nil || around.Lets(i)) {
			best, at = c.of[i], i
		}
	}
	return at
}
