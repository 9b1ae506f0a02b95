// Package whatif places hypothetical pods on a cluster: how many fit, where, and what stops the next one.
//
// [Rules.Judge] decides whether a pod fits on a node and why not, for explain, simulate and tests. A [Plan] has the
// cluster's nodes and what has been placed on them so far. It answers as the scheduler would: a node's own verdict
// ([state.Node.Place]) in all its possible states, the plain amounts that are left, and, of the nodes that fit, the
// one with the lowest cost. Invariant: a plan never changes its input, and the same pods in the same order give the
// same places. The package computes reasons that follow from amounts, NUMA nodes and the guard of [Rules]. All other
// reasons against a node come from the caller ([Bars], [Peers]).
package whatif

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/guard"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
)

// Amounts are plain amounts by resource, in kube-scheduler's units: "cpu" in thousandths, "pods" and devices in pieces,
// memory and storage in bytes.
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

// text returns a text that is equal exactly for equal amounts.
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
	// State has what is known about the node's NUMA nodes and holdings; nil if nothing is known.
	State *state.Node
	// Allocatable is what all pods together may request of the node, without regard to NUMA nodes; Used is what the
	// pods on the node have requested. Both count pods as "pods". The two maps are never changed.
	Allocatable, Used Amounts
	// Capacity is how many devices of extended resources the node would have if all of them were healthy. It may be nil,
	// and lack resources; the map is never changed.
	Capacity Amounts
	// Served are extended resources that DRA can serve. On a node that has none of such a resource allocatable,
	// kube-scheduler allocates devices instead of counting amounts. The map is never changed.
	Served map[string]bool
	// Uncounted are resources whose amount on the node is not known, so a pod never lacks them. The map is never
	// changed.
	Uncounted map[string]bool
	// Kept are amounts that are kept for pods that have not come yet, by the request that they belong to. Used does not
	// contain them. The map is never changed.
	Kept map[string]Amounts
	// Pods are the pods whose requests Used contains, as far as they are known. They are never changed.
	Pods []Resident
	// Freed and Given are as in [Site]. They are never changed.
	Freed []string
	Given []Given
	// Gone: the node no longer exists, and takes no pods.
	Gone bool
}

// Resident is a pod on a node, with its requests.
type Resident struct {
	Pod   state.PodID
	Needs Amounts
	// Stays: the pod ends only with the node, like pods of DaemonSets.
	Stays bool
}

// beside returns the node with what is kept for others than the pods of a request taken as used.
func (n *Node) beside(request string) *Node {
	if len(n.Kept) == 0 {
		return n
	}
	out := *n
	for name, kept := range n.Kept {
		if name != request {
			out.Used = out.Used.Add(kept)
		}
	}
	if request != "" && out.State != nil {
		out.State = out.State.WithoutPromisesTo(request)
	}
	return &out
}

// redeem takes one place of a pod's request back, if the node keeps any.
func (n *Node) redeem(w *Want) {
	left := n.Kept[w.Request]
	if w.Request == "" || left == nil {
		return
	}
	n.Kept = maps.Clone(n.Kept)
	rest := Amounts{}
	for name, amount := range left {
		rest[name] = max(0, amount-w.Needs[name])
	}
	if n.Kept[w.Request] = rest; rest["pods"] == 0 {
		delete(n.Kept, w.Request)
	}
	if n.State != nil {
		n.State, _, _ = n.State.Redeem(w.Request, w.Pod, w.Demand, "")
	}
}

// Left returns how much of a resource pods may still request.
func (n *Node) Left(resource string) int64 { return max(0, n.Allocatable[resource]-n.Used[resource]) }

// most returns how much of a resource pods can ever request of the node: unhealthy devices count, since they may
// recover.
func (n *Node) most(resource string) int64 {
	out := max(n.Allocatable[resource], n.Capacity[resource])
	if n.State != nil && n.State.Machine != nil && strings.Contains(resource, "/") {
		if r, ok := n.State.Machine.Resource(resource); ok {
			out = max(out, int64(len(r.Devices)))
		}
	}
	return out
}

// Rules are the scheduler's arguments and its scoring. A scheduler learns its workload profile while it schedules; here
// the profile is given ([Usual]).
type Rules struct {
	// Guard keeps pods from nodes as the scheduler's Filter does, by the same functions.
	Guard    guard.Guard
	Strategy score.Strategy
}

// Bars has the reasons why a shape may not go to each node, by position. It has only reasons that come neither from the
// kubelet's managers nor from amounts. Shapes with the same Bars have the same reasons.
type Bars struct{ Why [][]place.Reason }

// at returns the reasons against the node at position i; nil if there are none.
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
	// Needs are the plain amounts, with 1 of "pods".
	Needs Amounts
	// Type is the pod's own choice of scoring; nil means as in the rules.
	Type *score.Type
	// Bars excludes nodes; nil excludes none.
	Bars *Bars
	// Peers are the requirements between the pod and other pods; nil if there are none.
	Peers Peers
	// Request is the request whose room the pods use up, or "".
	Request string
	// Devices are what the claims of the pods ask for (DRA); nil if they have none, or none that are judged.
	Devices Devices
}

// Plan is a cluster on which pods are placed, one after the other. It belongs to one goroutine.
type Plan struct {
	rules  Rules
	before []Node
	nodes  []Node
	// changes counts, by position, how often a node has changed, and got how many pods it has got.
	changes, got []uint32
	costs        map[key]*costs
	placed       []placedPeer // placed pods that matter to other pods; see peers.go
	// trying is set while pods are placed on trial, and undo has then what to restore, the latest last; see gang.go.
	trying bool
	undo   []undone
}

// key identifies a shape: wants with equal keys cost the same on every node.
type key struct {
	shape, needs string
	demand       place.Demand
	scored       score.Type
	bars         *Bars
	request      string
	devices      Devices
}

// keyOf returns the key of a want.
func (p *Plan) keyOf(w *Want) key {
	return key{w.Pod.Shape(), w.Needs.text(), w.Demand, p.strategy(w).Type, w.Bars, w.Request, w.Devices}
}

// costs are the costs of a shape on every node. Each is valid until the node changes.
type costs struct {
	values []int64
	at     []uint32 // the node's changes when the value was computed, plus one; 0: not computed
}

const (
	// refused is the cost if a pod does not fit.
	refused = math.MaxInt64
	// maxShapes bounds the shapes with stored costs, which take 12 bytes for each node. Beyond it all stored costs
	// are dropped, which costs only time.
	maxShapes = 256
)

// New returns a plan without placements. The positions of nodes are those in Bars.
func New(nodes []Node, r Rules) *Plan {
	return &Plan{rules: r, before: nodes, nodes: slices.Clone(nodes), changes: make([]uint32, len(nodes)),
		got: make([]uint32, len(nodes)), costs: map[key]*costs{}}
}

// Before returns the nodes that the plan was made of, by position. The caller must not change them.
func (p *Plan) Before() []Node { return p.before }

// Nodes returns the nodes in their present state, by position. The caller must not change them.
func (p *Plan) Nodes() []Node { return p.nodes }

// Changed returns the positions of the nodes that got pods, ascending.
func (p *Plan) Changed() (out []int) {
	for i, n := range p.got {
		if n > 0 {
			out = append(out, i)
		}
	}
	return out
}

// Placement is a pod and its place.
type Placement struct {
	Pod  state.PodID
	Node int // position
	// Holdings are what the node would give the pod; empty if it assigns nothing to the pod.
	Holdings []place.Holding
	// Blind: the node's NUMA nodes are unknown, so it is unknown whether its kubelet would admit the pod.
	Blind bool
}

// Outcome is the result for pods of one shape.
type Outcome struct {
	Placed []Placement // in order
	// Refusals are the reasons why the next pod has no place; empty if all pods have one.
	Refusals []Refusal
}

// Fill places up to count pods of a shape; name(i) is the id of the i-th pod. It stops at the first pod for which no
// node has room, since equal pods have none either. It calls step before every pod; if step returns an error, Fill
// stops and returns that error.
func (p *Plan) Fill(w *Want, count int, name func(i int) state.PodID, step func() error) (out Outcome, err error) {
	c, neighbours := p.shapeCosts(w), p.neighbours(w)
	for i := range count {
		if err := step(); err != nil {
			return out, err
		}
		at, _ := p.cheapest(c, w, neighbours, nil)
		if at < 0 {
			out.Refusals = p.refusals(w, neighbours, p.all())
			return out, nil
		}
		out.Placed = append(out.Placed, p.put(at, w, name(i)))
		p.recordPlaced(w, neighbours, at)
	}
	return out, nil
}

// Each places one pod on every node that w.Bars does not exclude, as a DaemonSet does. The result wanted is the
// number of these nodes. name returns the id of the pod for the i-th node of the plan. Each calls step before each
// such node; if step returns an error, Each stops and returns that error. The refusals are those of the wanted nodes
// that have no room.
func (p *Plan) Each(w *Want, name func(i int) state.PodID, step func() error) (out Outcome, wanted int, err error) {
	var full []int
	neighbours, with := p.neighbours(w), partners(p.nodes, w.Demand)
	for i := range p.nodes {
		if p.nodes[i].Gone || len(w.Bars.at(i)) > 0 {
			continue
		}
		if err := step(); err != nil {
			return out, wanted, err
		}
		if wanted++; neighbours != nil && !neighbours.Lets(i) || with >= 0 && with != i || p.cost(i, w) == refused {
			full = append(full, i)
			continue
		}
		out.Placed = append(out.Placed, p.put(i, w, name(i)))
		if p.recordPlaced(w, neighbours, i); with < 0 {
			with = partners(p.nodes, w.Demand)
		}
	}
	out.Refusals = p.refusals(w, neighbours, full)
	return out, wanted, nil
}

// all returns the positions of all nodes.
func (p *Plan) all() (out []int) {
	for i := range p.nodes {
		out = append(out, i)
	}
	return out
}

// put places a pod on a node that has room for it.
func (p *Plan) put(i int, w *Want, id state.PodID) Placement {
	n := &p.nodes[i]
	if p.trying {
		p.undo = append(p.undo, undone{i, *n})
	}
	out := Placement{Pod: id, Node: i, Blind: n.State == nil && !w.Pod.Plain()}
	n.redeem(w)
	if n.State != nil && !w.Pod.Plain() {
		if next, ok := n.State.Join(id, w.Pod, w.Demand); ok {
			n.State = next
			out.Holdings = next.Entries[len(next.Entries)-1].Holdings
		}
	}
	n.Used = n.Used.Add(w.Needs)
	n.Give(w, out.Holdings)
	p.changes[i]++
	p.got[i]++
	return out
}

// shapeCosts returns the stored costs of a shape, and makes them if there are none.
func (p *Plan) shapeCosts(w *Want) *costs {
	k := p.keyOf(w)
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

// cheapest returns the position of the node with the lowest cost among some positions, the first of equal ones, and the
// cost; -1 if none has room. Nil stands for all positions.
func (p *Plan) cheapest(c *costs, w *Want, neighbours Neighbours, among []int) (at int, cost int64) {
	all := len(p.nodes)
	if among != nil {
		all = len(among)
	}
	best, at := int64(refused), -1
	with := partners(p.nodes, w.Demand)
	for i := range all {
		if among != nil {
			i = among[i]
		}
		if with >= 0 && with != i {
			continue
		}
		if c.at[i] != p.changes[i]+1 {
			c.values[i], c.at[i] = p.cost(i, w), p.changes[i]+1
		}
		if c.values[i] < best && (neighbours == nil || neighbours.Lets(i)) {
			best, at = c.values[i], i
		}
	}
	return at, best
}
