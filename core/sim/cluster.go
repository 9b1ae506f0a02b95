package sim

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file is what the nodes really are. Machines of one fleet that hold the same things share a state,
// and what a state answers to a shape is worked out once, for as long as some machine is in it.

// cluster is all nodes.
type cluster struct {
	trace    *Trace
	names    resources
	memory   int       // index of ordinary memory in names
	requests []amounts // by shape
	nodes    []node
	fleets   []amounts         // what pods may have, by fleet
	states   map[string]*state // those that some node is in
	live     []*state          // the same, in an order that depends on nothing but what happened
}

// node is one machine.
type node struct {
	fleet int
	state *state
	at    int    // index in state.nodes
	pods  []held // in the order of their admission
}

// held is a pod on a node.
type held struct {
	pod, shape int
	holdings   []place.Holding
}

// state is what a node holds.
type state struct {
	key     string
	fleet   int
	usage   *place.Usage
	asked   amounts // what the pods ask for as a whole, NUMA nodes apart
	answers []answer
	nodes   []int
	at      int // index in cluster.live
}

// answer is what a state says to a shape.
type answer struct {
	known, room, fits bool
	verdict           place.Verdict
	// cost is what a strategy makes of the verdict, under the mix of that number.
	cost   int64
	priced int // number of the mix plus one, 0 for not yet
}

func newCluster(t *Trace) *cluster {
	c := &cluster{trace: t, names: resourcesOf(t), states: map[string]*state{}}
	c.memory = c.names.index(topo.Memory)
	for i := range t.Shapes {
		c.requests = append(c.requests, c.names.request(&t.Shapes[i].Pod))
	}
	for f, fleet := range t.Fleets {
		empty := place.NewUsage(fleet.Machine, fleet.Rules)
		c.fleets = append(c.fleets, c.names.allocatable(empty))
		for range fleet.Count {
			c.nodes = append(c.nodes, node{fleet: f})
			c.enter(len(c.nodes)-1, empty, make(amounts, len(c.names)))
		}
	}
	return c
}

// enter puts a node into the state of a usage.
func (c *cluster) enter(n int, u *place.Usage, asked amounts) {
	nd := &c.nodes[n]
	key := keyOf(nd.fleet, u, asked)
	s := c.states[key]
	if s == nil {
		s = &state{key: key, fleet: nd.fleet, usage: u, asked: asked, answers: make([]answer, len(c.trace.Shapes)),
			at: len(c.live)}
		c.states[key] = s
		c.live = append(c.live, s)
	}
	nd.state, nd.at = s, len(s.nodes)
	s.nodes = append(s.nodes, n)
}

// leave takes a node out of its state; a state that nobody is in is forgotten.
func (c *cluster) leave(n int) {
	s, at := c.nodes[n].state, c.nodes[n].at
	last := len(s.nodes) - 1
	s.nodes[at] = s.nodes[last]
	c.nodes[s.nodes[at]].at = at
	if s.nodes = s.nodes[:last]; last > 0 {
		return
	}
	delete(c.states, s.key)
	end := c.live[len(c.live)-1]
	c.live[s.at], end.at = end, s.at
	c.live = c.live[:len(c.live)-1]
}

// answer returns what a state says to a shape.
func (c *cluster) answer(s *state, shape int) *answer {
	a := &s.answers[shape]
	if !a.known {
		a.known = true
		if a.room = room(c.fleets[s.fleet], s.asked, c.requests[shape]); a.room {
			a.verdict = place.Place(s.usage, &c.trace.Shapes[shape].Pod)
			a.fits = a.verdict.Fits()
		}
	}
	return a
}

// admit gives a pod to a node whose kubelet takes it; the answer must be one that fits.
func (c *cluster) admit(n, pod, shape int) place.Verdict {
	s := c.nodes[n].state
	v := c.answer(s, shape).verdict
	asked := slices.Clone(s.asked)
	for r, x := range c.requests[shape] {
		asked[r] += x
	}
	u := s.usage
	if len(v.Holdings) > 0 {
		u = u.Hold(v.Holdings...)
	}
	c.nodes[n].pods = append(c.nodes[n].pods, held{pod, shape, v.Holdings})
	c.leave(n)
	c.enter(n, u, asked)
	return v
}

// release lets a pod go. What is left is held in the order in which it was admitted, as the ledger does.
func (c *cluster) release(n, pod int) {
	nd := &c.nodes[n]
	at := slices.IndexFunc(nd.pods, func(h held) bool { return h.pod == pod })
	asked := slices.Clone(nd.state.asked)
	for r, x := range c.requests[nd.pods[at].shape] {
		asked[r] -= x
	}
	u := nd.state.usage
	holds := len(nd.pods[at].holdings) > 0
	nd.pods = slices.Delete(nd.pods, at, at+1)
	if holds {
		var all []place.Holding
		for _, h := range nd.pods {
			all = append(all, h.holdings...)
		}
		fleet := c.trace.Fleets[nd.fleet]
		u = place.NewUsage(fleet.Machine, fleet.Rules).Hold(all...)
	}
	c.leave(n)
	c.enter(n, u, asked)
}

// keyOf returns a text that is equal for usages that answer every pod alike.
func keyOf(fleet int, u *place.Usage, asked amounts) string {
	b := strconv.AppendInt(make([]byte, 0, 256), int64(fleet), 36)
	b = append(append(b, ';'), u.FreeCPUs().String()...)
	for i := range u.Machine.NUMAs() {
		g := u.MemoryGroup(i)
		b = strconv.AppendUint(append(b, ';'), uint64(g.NUMAs), 36)
		for _, f := range g.Free {
			b = strconv.AppendInt(append(b, ','), f.Bytes, 36)
		}
	}
	for _, r := range u.Machine.Resources() {
		b = append(b, ';')
		for _, d := range u.FreeDevices(r.Name) {
			b = append(append(b, d.ID...), ',')
		}
	}
	for _, n := range asked {
		b = strconv.AppendInt(append(b, ';'), n, 36)
	}
	return string(b)
}

// stranded counts what of a resource is free on a node but of no use to any shape: what is left when
// those that ask for it, the smallest first, are put there for as long as one fits.
func (c *cluster) stranded(s *state, resource int) int64 {
	shapes := make([]int, 0, len(c.requests))
	for i, r := range c.requests {
		if r[resource] > 0 {
			shapes = append(shapes, i)
		}
	}
	slices.SortStableFunc(shapes, func(a, b int) int {
		return cmp.Compare(c.requests[a][resource],
			c.requests[b][resource])
	})
	u, asked := s.usage, slices.Clone(s.asked)
	for _, i := range shapes {
		for room(c.fleets[s.fleet], asked, c.requests[i]) {
			v := place.Place(u, &c.trace.Shapes[i].Pod)
			if !v.Fits() {
				break
			}
			u = u.Hold(v.Holdings...)
			for r, x := range c.requests[i] {
				asked[r] += x
			}
		}
	}
	return c.fleets[s.fleet][resource] - asked[resource]
}
