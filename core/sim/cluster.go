package sim

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file models the real nodes. Machines of one fleet with equal holdings share a state. The answer of a state to
// a shape is computed once, and kept as long as some machine is in that state.

// cluster has all nodes.
type cluster struct {
	trace    *Trace
	names    resources
	memory   int       // index of ordinary memory in names
	requests []amounts // by shape
	nodes    []node
	fleets   []amounts         // what pods may have, by fleet
	states   map[string]*state // states of at least one node
	live     []*state          // the same states, in an order that depends only on the events
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

// state is what nodes hold.
type state struct {
	key     string
	fleet   int
	usage   *place.Usage
	asked   amounts // requests of the pods, without regard to NUMA nodes
	answers []answer
	nodes   []int
	at      int // index in cluster.live
}

// answer is the answer of a state to a shape.
type answer struct {
	known   bool // the answer is computed
	enough  bool // the plain amounts are enough
	fits    bool // the kubelet would admit the pod, too
	verdict place.Verdict
	// cost is the strategy's cost of the verdict, under the mix that priced identifies.
	cost   int64
	priced int // number of the mix plus one; 0: not computed
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

// enter puts a node into the state for a usage.
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

// leave removes a node from its state, and drops a state without nodes.
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

// answer returns the answer of a state to a shape.
func (c *cluster) answer(s *state, shape int) *answer {
	a := &s.answers[shape]
	if !a.known {
		a.known = true
		if a.enough = hasRoom(c.fleets[s.fleet], s.asked, c.requests[shape]); a.enough {
			a.verdict = place.Place(s.usage, &c.trace.Shapes[shape].Pod)
			a.fits = a.verdict.Fits()
		}
	}
	return a
}

// admit adds a pod to a node. The node's answer to the shape must be that it fits.
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

// release removes a pod from its node. It holds the other pods again on an empty machine, in the order of their
// admission, as the ledger does.
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

// keyOf returns a text. Nodes of one fleet whose texts are equal answer every pod alike.
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

// stranded returns how much of a resource is free on a node but useless for all shapes. It adds pods that ask for the
// resource, smallest first, as long as one fits, and returns what these leave free.
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
		for hasRoom(c.fleets[s.fleet], asked, c.requests[i]) {
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
