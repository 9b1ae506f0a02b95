package whatif

import (
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/state"
)

// This file places gangs: enough of their pods get nodes at the same time, or none does. It takes the pods in their
// order first, each with the best node at that moment, as kube-scheduler does. If too few get nodes so, and the pods
// differ, it looks for other nodes by the scheduler's search, core/assign, with the scheduler's bounds.

// Group is a group of pods of a file, of Kubernetes' Workload API.
type Group struct {
	Namespace, Name string
	// Least is how many of its pods have to get nodes at the same time; 0 if they get nodes one by one.
	Least int
	// Label is the label whose value the nodes of all its pods have to share, or "".
	Label string
	// Part is set if the group belongs to a composite group.
	Part bool
	// Rank is its priority, which its pods need too. Of a group of a composite group, that one's counts.
	Rank Rank
	// Preempts is its preemptionPolicy in the file, or "". An alpha feature gate has kube-scheduler read it.
	Preempts string
}

// Has reports whether the pods of a workload name the group.
func (g *Group) Has(w *Workload) bool { return w.Namespace == g.Namespace && w.Group == g.Name }

// Gang is a group of pods to place.
type Gang struct {
	Pods []Member // in the order in which the scheduler takes them
	// Least is how many of them have to get nodes.
	Least int
	// Racks are sets of nodes. One of them has to take all the pods. Nil stands for one set of all nodes.
	Racks []Rack
}

// Member is a pod of a gang.
type Member struct {
	ID   state.PodID
	Want *Want
}

// Rack is a set of nodes that share the value of a label: positions, ascending.
type Rack struct {
	Name  string
	Nodes []int
}

// Doubt is why it is not certain that a gang does not fit.
type Doubt string

// The doubts. None stands for an answer that the search has proved, or that the scheduler would give, too.
const (
	None Doubt = ""
	// Budget: the search reached the scheduler's bound.
	Budget Doubt = "budget"
	// Other: rules other than amounts and NUMA nodes, such as affinity between the pods, refused what the search found.
	Other Doubt = "rules"
	// Size: the gang has more pods than a scheduler searches nodes for.
	Size Doubt = "size"
	// Unknown: nodes whose NUMA nodes are not known may take pods, and the search does not look at them.
	Unknown Doubt = "nodes"
)

// GangOutcome is the result for a gang.
type GangOutcome struct {
	Fits bool
	// Placed has the place of each pod; Node is assign.Left if it has none. If the gang does not fit, these are the
	// places that pods would have at the same time, of the most pods that were found, and nothing has been placed.
	Placed []Placement
	// More: the gang does not fit, and more of its pods than these may fit at the same time, since no search has proved
	// the number.
	More  bool
	Rack  string // the rack of the places
	Doubt Doubt  // None if the gang fits
	// First is the index of the first pod without a place, or -1. Refusals is why it has none beside the others.
	First    int
	Refusals []Refusal
}

// mostBudget bounds the containers that the search for the most pods of a gang that does not fit places in one rack.
const mostBudget = 3 * assign.SchedulerBudget

// Together places a gang if enough of its pods fit at the same time, and otherwise nothing. Of several racks it takes
// the one where most pods have places, and of these the one with the lowest cost. It calls step before every pod that
// it tries; if step returns an error, Together stops and returns that error.
func (p *Plan) Together(g Gang, step func() error) (out GangOutcome, err error) {
	if g.Racks == nil {
		g.Racks = []Rack{{Nodes: p.all()}}
	}
	t := newGathering(p, g, step)
	var best attempt
	for _, r := range g.Racks {
		a, err := t.run(r, nil, nil)
		if err == nil && a.count < g.Least {
			var b attempt
			if b, err = t.planned(r); b.better(a) {
				a = b
			}
		}
		if err != nil {
			return out, err
		}
		if best.at == nil || a.better(best) {
			best = a
		}
	}
	if best.count >= g.Least {
		out = t.outcome(best)
		out.Fits = true
		return out, nil
	}
	if best, err = t.most(best); err != nil {
		return out, err
	}
	p.onTrial(func() { out = t.outcome(best) })
	out.Doubt, out.More = t.doubt, t.more
	return out, nil
}

// OneAfterTheOther is Together for a gang whose pods after the first ones come once these run: enough of the first pods
// have to get nodes at the same time, and each of the others then gets the best one that is left.
func (p *Plan) OneAfterTheOther(g Gang, first int, step func() error) (out GangOutcome, err error) {
	late := g.Pods[first:]
	g.Pods = g.Pods[:first]
	if out, err = p.Together(g, step); err != nil {
		return out, err
	}
	if !out.Fits || len(late) == 0 {
		for _, m := range late {
			out.Placed = append(out.Placed, Placement{Pod: m.ID, Node: assign.Left})
		}
		return out, nil
	}
	at := slices.IndexFunc(g.Racks, func(r Rack) bool { return r.Name == out.Rack })
	g.Pods, g.Least = late, 0
	if at >= 0 {
		g.Racks = g.Racks[at : at+1]
	}
	more, err := p.Together(g, step)
	if out.First < 0 && more.First >= 0 {
		out.First, out.Refusals = first+more.First, more.Refusals
	}
	out.Placed = append(out.Placed, more.Placed...)
	return out, err
}

// undone is what a node was before a pod was placed on trial.
type undone struct {
	node int
	was  Node
}

// onTrial calls a function that places pods, and takes them away again.
func (p *Plan) onTrial(do func()) {
	placed := len(p.placed)
	p.trying = true
	do()
	for i := len(p.undo) - 1; i >= 0; i-- {
		x := p.undo[i]
		p.nodes[x.node] = x.was
		p.changes[x.node]++ // the costs of the node with the pod are not valid any more
		p.got[x.node]--
	}
	p.trying, p.undo, p.placed = false, p.undo[:0], p.placed[:placed]
}

// gathering is the state of Together.
type gathering struct {
	*Plan
	Gang
	step func() error
	// kinds has the kind of each pod: all nodes treat pods of one kind alike. plain counts the pods that hold nothing
	// exclusively: no nodes are searched for them, they get any.
	kinds []string
	plain int
	// unequal: the pods that hold something are of several kinds, or related. Other pods of one kind get every place that
	// there is when they are taken one by one.
	unequal bool
	blind   bool // nodes whose NUMA nodes are not known may take pods that hold something
	left    int  // of the budget
	doubt   Doubt
	more    bool // see GangOutcome
}

func newGathering(p *Plan, g Gang, step func() error) *gathering {
	type kind struct {
		key
		own *Want // of pods that other pods matter to
	}
	t := &gathering{Plan: p, Gang: g, step: step, left: assign.GangBudget}
	known, of, first := map[kind]string{}, map[*Want]string{}, ""
	for _, m := range g.Pods {
		w := m.Want
		if _, seen := of[w]; !seen {
			k := kind{key: p.keyOf(w)}
			if w.Peers != nil {
				k.own = w
			}
			if known[k] == "" {
				known[k] = strconv.Itoa(len(known) + 1)
			}
			of[w] = known[k]
			t.blind = t.blind || !w.Pod.Plain() && p.blind(w)
		}
		t.kinds = append(t.kinds, of[w])
		switch {
		case w.Pod.Plain():
			t.plain++
		case first == "":
			first = of[w]
		default:
			t.unequal = t.unequal || of[w] != first
		}
		t.unequal = t.unequal || w.Demand.Relates()
	}
	return t
}

// blind reports whether a node whose NUMA nodes are not known may take a pod.
func (p *Plan) blind(w *Want) bool {
	for i := range p.nodes {
		if p.nodes[i].State == nil && p.cost(i, w) != refused {
			return true
		}
	}
	return false
}

// attempt is a node for each pod, or assign.Left.
type attempt struct {
	rack  Rack
	at    []int
	count int   // pods with nodes
	cost  int64 // of their places together
}

func (a attempt) better(b attempt) bool {
	return a.at != nil && (a.count > b.count || a.count == b.count && a.cost < b.cost)
}

// anywhere is the planned node of a pod that may get any node.
const anywhere = -2

// pinned is a kind of pods and the position of a planned node that refuses them.
type pinned struct {
	kind string
	node int
}

// run tries to place the pods on the nodes of a rack, in their order: each on its node of the plan, or on the best
// one if there is no plan. It adds the planned nodes that refuse their pods to refusing.
func (t *gathering) run(r Rack, plan []int, refusing map[pinned]bool) (out attempt, err error) {
	out = attempt{rack: r, at: make([]int, len(t.Pods))}
	hopeless := map[*Want]bool{} // those for which there was no node, and nothing has changed that helps
	related := slices.ContainsFunc(t.Pods, func(m Member) bool { return m.Want.Demand.Relates() })
	t.onTrial(func() {
		near := neighbourhood{}
		for i, m := range t.Pods {
			out.at[i] = assign.Left
			if plan != nil && plan[i] == assign.Left || plan == nil && hopeless[m.Want] {
				continue
			}
			if err = t.step(); err != nil {
				return
			}
			among, neighbours := r.Nodes, near.of(t.Plan, m.Want)
			if plan != nil && plan[i] != anywhere {
				among = plan[i : i+1]
			}
			at, cost := t.cheapest(t.shapeCosts(m.Want), m.Want, neighbours, among)
			switch {
			case at >= 0:
				out.at[i], out.count, out.cost = at, out.count+1, out.cost+cost
				near.put(t.Plan, m, at)
				if m.Want.Peers != nil || related {
					clear(hopeless)
				}
			case plan != nil && plan[i] != anywhere:
				refusing[pinned{t.kinds[i], plan[i]}] = true
			default:
				hopeless[m.Want] = true
			}
		}
	})
	return out, err
}

// neighbourhood has the neighbours of the pods of a gang.
type neighbourhood map[*Want]Neighbours

// of returns the neighbours of a pod, or nil if no other pod matters.
func (n neighbourhood) of(p *Plan, w *Want) Neighbours {
	out, known := n[w]
	if !known {
		out = p.neighbours(w)
		n[w] = out
	}
	return out
}

// put places a pod, and makes it known to the neighbours of the others.
func (n neighbourhood) put(p *Plan, m Member, at int) Placement {
	out := p.put(at, m.Want, m.ID)
	p.recordPlaced(m.Want, nil, at)
	for _, others := range n {
		if others != nil && m.Want.Peers != nil {
			others.Placed(m.Want.Peers, at)
		}
	}
	return out
}

// planned looks for nodes of a rack that take enough of the pods, and tries what it finds. The result has no nodes if
// it finds none.
func (t *gathering) planned(r Rack) (best attempt, err error) {
	switch {
	case !t.unequal || t.Least < 2:
		return best, nil
	case len(t.Pods) > assign.SchedulerPods:
		t.doubts(Size)
		return best, nil
	}
	refusing := map[pinned]bool{}
	for range assign.SchedulerTries {
		plan, spent := t.find(r, t.Least, assign.SchedulerBudget, refusing)
		switch {
		case spent:
			t.doubts(Budget)
		case plan == nil && len(refusing) > 0:
			t.doubts(Other)
		case plan == nil && t.blind:
			t.doubts(Unknown)
		}
		if plan == nil {
			return best, nil
		}
		before := len(refusing)
		a, err := t.run(r, plan, refusing)
		if err != nil {
			return best, err
		}
		if best.at == nil || a.better(best) {
			best = a
		}
		if a.count >= t.Least || len(refusing) == before {
			break
		}
	}
	if best.count < t.Least {
		t.doubts(Other)
	}
	return best, nil
}

// doubts records why it is not certain that the gang does not fit. The first cause counts.
func (t *gathering) doubts(why Doubt) {
	if t.doubt == None {
		t.doubt = why
	}
}

// most returns the attempt that places the most pods: the given one, or one that the search finds.
func (t *gathering) most(best attempt) (attempt, error) {
	if t.more = t.doubt != None; !t.unequal || len(t.Pods) > assign.SchedulerPods {
		return best, nil
	}
	for _, r := range t.Racks {
		plan, spent := t.find(r, 1, mostBudget, nil)
		if t.more = t.more || spent; plan == nil {
			continue
		}
		a, err := t.run(r, plan, map[pinned]bool{})
		if err != nil {
			return best, err
		}
		if a.better(best) {
			best = a
		}
	}
	return best, nil
}

// find returns a planned node for each pod, with nodes for at least least of them; nil if it finds none. If it
// reached its bound before it knew that, spent is true.
func (t *gathering) find(r Rack, least, budget int, refusing map[pinned]bool) (plan []int, spent bool) {
	problem := assign.Problem{Nodes: make([]*state.Node, len(r.Nodes)), Least: least - t.plain,
		Budget: min(budget, t.left)}
	if problem.Budget <= 0 {
		return nil, true
	}
	for i, at := range r.Nodes {
		if n := &t.nodes[at]; !n.Gone {
			problem.Nodes[i] = n.State
		}
	}
	var members, with []int
	for i, m := range t.Pods {
		if !m.Want.Pod.Plain() {
			members, with = append(members, i), append(with, partners(t.nodes, m.Want.Demand))
			problem.Pods = append(problem.Pods, assign.Pod{ID: m.ID, Pod: m.Want.Pod, Demand: m.Want.Demand, Kind: t.kinds[i]})
		}
	}
	problem.Barred = func(node, pod int) bool {
		i, at := members[pod], r.Nodes[node]
		return refusing[pinned{t.kinds[i], at}] || with[pod] >= 0 && with[pod] != at || t.bars(t.Pods[i].Want, at)
	}
	problem.Room = func(node int, pods []int) bool {
		needs := Amounts{}
		for _, pod := range pods {
			for name, n := range t.Pods[members[pod]].Want.Needs {
				needs[name] = min(needs[name]+n, MaxAmount)
			}
		}
		return len(t.nodes[r.Nodes[node]].Lacks(needs)) == 0
	}
	at, left := assign.FindLeft(problem)
	t.left -= problem.Budget - left
	if at == nil {
		return nil, left < 0
	}
	plan = make([]int, len(t.Pods))
	for i := range plan {
		plan[i] = anywhere
	}
	for k, i := range members {
		if plan[i] = assign.Left; at[k] != assign.Left {
			plan[i] = r.Nodes[at[k]]
		}
	}
	return plan, false
}

// bars reports whether something else than amounts, NUMA nodes and other pods keeps a pod from a node.
func (p *Plan) bars(w *Want, at int) bool {
	n := &p.nodes[at]
	return len(w.Bars.at(at)) > 0 || p.rules.distrusts(n, w.Demand) != nil ||
		p.rules.Guard.Refuses(n.State, w.Pod, w.Demand) != 0
}

// outcome places the pods of an attempt, and finds out why the first one without a node has none.
func (t *gathering) outcome(a attempt) GangOutcome {
	out := GangOutcome{Rack: a.rack.Name, First: -1}
	near := neighbourhood{}
	for i, m := range t.Pods {
		at := assign.Left
		if a.at != nil {
			at = a.at[i]
		}
		switch {
		case at != assign.Left:
			out.Placed = append(out.Placed, near.put(t.Plan, m, at))
			continue
		case out.First < 0:
			out.First = i
		}
		out.Placed = append(out.Placed, Placement{Pod: m.ID, Node: assign.Left})
	}
	if out.First >= 0 {
		w := t.Pods[out.First].Want
		out.Refusals = t.refusals(w, t.neighbours(w), a.rack.Nodes)
	}
	return out
}
