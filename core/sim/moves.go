package sim

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/score"
	corestate "github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file moves pods so that others get room, every five minutes: for one pod after the other that waits, the
// cheapest plan of package defrag, as long as there are moves left. A pod that moves is on its new node at once, and
// departs when it would have departed.

const (
	moveSeconds = 300
	// nearby bounds the nodes among which pods move: those with the most of the scarce resource left.
	nearby = 32
	// plans bounds the waiting pods for which moves are looked for at a time, one of each shape.
	plans = 8
	// trials and looks bound the search of a plan, as in [defrag.Problem].
	trials = 40
	looks  = 20_000
)

// makeRoom moves pods, at most as many as the options allow at a time.
func (r *replay) makeRoom() {
	left := r.options.Moves
	var first []waiting // of each shape
	for _, q := range r.queues {
		if len(q) > 0 {
			first = append(first, q[0])
		}
	}
	slices.SortFunc(first, func(a, b waiting) int { return cmp.Compare(a.seq, b.seq) })
	for _, w := range first[:min(plans, len(first))] {
		if left == 0 {
			return
		}
		p, nodes, pods := r.problem(w.pod, left)
		out, err := defrag.Find(p, func() error { return nil })
		if err != nil || out.Plan == nil {
			continue
		}
		left -= len(out.Plan.Moves)
		r.move(w.pod, out.Plan, nodes, pods)
	}
}

// problem asks which pods to move for a pod that waits, at most so many. It returns the nodes of the positions and the
// pods of the movers, too.
func (r *replay) problem(pod, most int) (p defrag.Problem, nodes, pods []int) {
	c := r.cluster
	scarce := c.names.index(r.trace.Scarce())
	nodes = make([]int, len(c.nodes))
	for n := range nodes {
		nodes[n] = n
	}
	free := func(n int) int64 { s := c.nodes[n].state; return c.fleets[s.fleet][scarce] - s.asked[scarce] }
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(free(b), free(a)) })
	nodes = slices.Clone(nodes[:min(nearby, len(nodes))])
	slices.Sort(nodes)
	p = defrag.Problem{Rules: whatif.Rules{Strategy: score.Strategy{Type: score.MostAllocated}}, Most: most,
		Trials: trials, Looks: looks, Pods: []defrag.Goal{{Member: whatif.Member{ID: podID(pod), Want: r.want(pod)}}}}
	for at, n := range nodes {
		p.Nodes = append(p.Nodes, r.nodeOf(n))
		for _, h := range c.nodes[n].pods {
			p.Movers = append(p.Movers, defrag.Mover{Resident: whatif.Resident{Pod: podID(h.pod),
				Needs: c.amountsOf(c.requests[h.shape])}, Node: at, Want: r.want(h.pod), Weight: 1,
				Started: r.trace.Pods[h.pod].At})
			pods = append(pods, h.pod)
		}
	}
	return p, nodes, pods
}

func podID(pod int) corestate.PodID {
	name := strconv.Itoa(pod)
	return corestate.PodID{UID: name, Namespace: "sim", Name: name}
}

// want returns what a pod wants.
func (r *replay) want(pod int) *whatif.Want {
	shape := r.trace.Pods[pod].Shape
	return &whatif.Want{Pod: &r.trace.Shapes[shape].Pod, Needs: r.cluster.amountsOf(r.cluster.requests[shape])}
}

// amountsOf returns amounts with their names, and one pod.
func (c *cluster) amountsOf(a amounts) whatif.Amounts {
	out := whatif.Amounts{"pods": 1}
	for i, n := range a {
		if n > 0 {
			out[c.names[i]] = n
		}
	}
	return out
}

// nodeOf returns a node as package whatif has it.
func (r *replay) nodeOf(n int) whatif.Node {
	c := r.cluster
	nd := &c.nodes[n]
	fleet := &r.trace.Fleets[nd.fleet]
	s := &corestate.Node{Name: strconv.Itoa(n), Machine: fleet.Machine, Rules: fleet.Rules, Usage: nd.state.usage}
	out := whatif.Node{Name: s.Name, State: s, Allocatable: c.amountsOf(c.fleets[nd.fleet]),
		Used: c.amountsOf(nd.state.asked)}
	out.Allocatable["pods"], out.Used["pods"] = int64(len(nd.pods))+1000, int64(len(nd.pods))
	for _, h := range nd.pods {
		if len(h.holdings) > 0 {
			s.Entries = append(s.Entries, corestate.Entry{Pod: podID(h.pod), Source: corestate.Observed,
				Holdings: h.holdings})
		}
		out.Pods = append(out.Pods, whatif.Resident{Pod: podID(h.pod), Needs: c.amountsOf(c.requests[h.shape])})
	}
	return out
}

// move carries a plan out for a pod that waits: all pods of the plan leave their nodes, and get their places in the
// order of the plan.
func (r *replay) move(goal int, p *defrag.Plan, nodes, pods []int) {
	for _, m := range p.Moves {
		pod := pods[m.Mover]
		r.cluster.release(r.pods[pod].node, pod)
		r.picker.podLeft(r.pods[pod].node)
	}
	for _, x := range p.Order {
		pod, err := strconv.Atoi(x.Pod.Name)
		if err != nil {
			continue // podID wrote the name
		}
		n := nodes[x.Node]
		shape := r.trace.Pods[pod].Shape
		if !r.cluster.answer(r.cluster.nodes[n].state, shape).fits {
			r.tally.Refused++ // the plan was wrong
		}
		if pod != goal {
			r.cluster.admit(n, pod, shape)
			r.pods[pod].node = n
			r.tally.Moved++
			continue
		}
		r.settle(pod, n)
		q := r.queues[shape]
		r.queues[shape] = slices.Delete(q, 0, 1)
	}
}
