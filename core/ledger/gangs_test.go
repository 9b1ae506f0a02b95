package ledger

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

var gangCount = flag.Int("gangs.n", 2000, "how many random gangs come to three nodes")

// crowded is a cluster of three nodes to which gangs come. Its kubelets admit pods by place, in any order, and report
// from time to time. Its scheduler knows the ledger, or only how many CPUs are free.
type crowded struct {
	rand   *rand.Rand
	plain  bool
	book   *Book
	layout []state.Layout // of the empty nodes
	nodes  []*node
	flying [][]comer // by node: bound, and not admitted
	gangs  [][]comer // those that run
	uid    int

	refused, half, missed, ran, waited int
}

// comer is a pod of a gang.
type comer struct {
	id  state.PodID
	pod *place.Pod
	at  int // its node, or assign.Left
}

func newCrowded(t *testing.T, seed uint64, plain bool) *crowded {
	c := &crowded{rand: rand.New(rand.NewPCG(seed, 4)), plain: plain, book: New()}
	for i := range 3 {
		l := randomNode(t, c.rand)
		c.layout = append(c.layout, l)
		c.nodes = append(c.nodes, &node{usage: place.NewUsage(l.Machine, l.Rules)})
		c.book.Report(nodeName(i), l)
	}
	c.flying = make([][]comer, 3)
	return c
}

func nodeName(i int) string { return fmt.Sprint("n", i) }

// draw returns a gang, and how many of its pods it needs.
func (c *crowded) draw() (gang []comer, need int) {
	cpus, equal := 1+c.rand.Int64N(5), c.rand.IntN(2) == 0
	for range 2 + c.rand.IntN(3) {
		if !equal {
			cpus = 1 + c.rand.Int64N(5)
		}
		c.uid++
		gang = append(gang, comer{state.PodID{UID: fmt.Sprint("u", c.uid), Namespace: "ml", Name: fmt.Sprint("p", c.uid)},
			pod(cpus, 1), assign.Left})
	}
	return gang, len(gang) - c.rand.IntN(2)*c.rand.IntN(2)
}

// settle has the kubelet of a node admit what is bound, in any order, and report it.
func (c *crowded) settle(i int) {
	c.rand.Shuffle(len(c.flying[i]), func(a, b int) { f := c.flying[i]; f[a], f[b] = f[b], f[a] })
	for _, x := range c.flying[i] {
		v := place.Place(c.nodes[i].usage, x.pod)
		if !v.Fits() {
			c.refused++
			c.book.Refuse(x.id.UID, v.Refusal)
			continue
		}
		c.nodes[i].admit(state.Entry{Pod: x.id, Source: state.Observed, Holdings: observed(v.Holdings)})
	}
	c.flying[i] = nil
	l := c.layout[i]
	l.Entries = slices.Clone(c.nodes[i].entries)
	c.book.Report(nodeName(i), l)
}

// usual gives each pod of a gang the best node at its moment, and returns how many have one.
func (c *crowded) usual(gang []comer) (placed int) {
	now := c.states()
	for k := range gang {
		x, best := &gang[k], 0
		x.at = assign.Left
		for i, n := range now {
			free := n.Usage.FreeCPUs().Len()
			fits := n.Takes(x.pod, place.Demand{})
			if c.plain {
				fits = int64(free)*1000 >= x.pod.Containers[0].MilliCPU
			}
			if fits && free > best {
				best, x.at = free, i
			}
		}
		if x.at == assign.Left {
			continue
		}
		placed++
		next, ok := now[x.at].With(x.id, x.pod)
		if !ok { // plain: the kubelet will refuse it
			next = now[x.at]
		}
		now[x.at] = next
	}
	return placed
}

func (c *crowded) states() (out []*state.Node) {
	snap := c.book.Snapshot()
	for i := range c.nodes {
		out = append(out, snap.Node(nodeName(i)))
	}
	return out
}

// arrange finds nodes for a gang, as the scheduler does, and reports whether there are some.
func (c *crowded) arrange(gang []comer, need int) bool {
	if c.usual(gang) >= need {
		return true
	}
	if c.plain {
		return false
	}
	p := assign.Problem{Nodes: c.states(), Least: need, Budget: 1 << 16}
	for _, x := range gang {
		p.Pods = append(p.Pods, assign.Pod{ID: x.id, Pod: x.pod, Kind: x.pod.Shape()})
	}
	at, _ := assign.Find(p)
	for k := range gang {
		if gang[k].at = assign.Left; at != nil {
			gang[k].at = at[k]
		}
	}
	return at != nil
}

// exists reports whether enough pods of a gang from index k on have nodes, by trying every way.
func exists(nodes []*state.Node, gang []comer, k, need int) bool {
	if need <= 0 || len(gang)-k < need {
		return need <= 0
	}
	for i, n := range nodes {
		if next, ok := n.With(gang[k].id, gang[k].pod); ok && n.Takes(gang[k].pod, place.Demand{}) {
			rest := slices.Clone(nodes)
			if rest[i] = next; exists(rest, gang, k+1, need-1) {
				return true
			}
		}
	}
	return exists(nodes, gang, k+1, need)
}

// start reserves and binds the pods of a gang that have nodes. It reports whether all of them were bound.
func (c *crowded) start(t *testing.T, gang []comer) bool {
	var members []Member
	for _, x := range gang {
		if x.at == assign.Left || c.plain {
			continue
		}
		v, ok := c.book.Reserve(nodeName(x.at), x.id, x.pod, place.Demand{})
		if !ok || !v.Fits() {
			t.Fatalf("pod %s does not fit node %d, which was found for it: %v", x.id, x.at, v.Reasons)
		}
		members = append(members, Member{UID: x.id.UID})
	}
	for tries := 0; !c.plain; tries++ {
		r, wait, err := c.book.Turns(members, tries > 0)
		switch {
		case err != nil || tries > 3:
			t.Fatalf("turns of %v after %d tries: %v, waits %v", members, tries, err, wait)
		case wait != nil:
			c.settle(int(wait.Node[1] - '0'))
			continue
		case r.UID != "":
			for _, m := range members {
				c.book.Unreserve(m.UID)
			}
			return false
		}
		break
	}
	for _, x := range gang {
		if x.at == assign.Left {
			continue
		}
		for tries := 0; !c.plain; tries++ {
			v, wait, err := c.book.Turn(x.id.UID, 0)
			if err != nil || wait == nil && !v.Fits() || tries > 3 {
				c.half++
				return true
			}
			if wait == nil {
				break
			}
			c.settle(x.at)
		}
		c.book.Assume(nodeName(x.at), x.id, x.pod)
		c.flying[x.at] = append(c.flying[x.at], x)
	}
	return true
}

// end ends a gang that runs.
func (c *crowded) end() {
	for i := range c.nodes {
		c.settle(i)
	}
	k := c.rand.IntN(len(c.gangs))
	gone := map[string]bool{}
	for _, x := range c.gangs[k] {
		gone[x.id.UID] = true
		c.book.Release(x.id.UID)
	}
	c.gangs = slices.Delete(c.gangs, k, k+1)
	for i, n := range c.nodes {
		n.entries = slices.DeleteFunc(n.entries, func(e state.Entry) bool { return gone[e.Pod.UID] })
		n.usage = place.NewUsage(c.layout[i].Machine, c.layout[i].Rules).Hold(state.Holdings(n.entries)...)
		c.settle(i)
	}
}

// play lets gangs come and end.
func (c *crowded) play(t *testing.T, n int) {
	for range n {
		for i := range c.nodes {
			if c.rand.IntN(2) == 0 {
				c.settle(i)
			}
		}
		gang, need := c.draw()
		found := c.arrange(gang, need)
		if !found && !c.plain && exists(c.states(), gang, 0, need) {
			c.missed++
		}
		before := c.refused
		switch {
		case !found:
			c.waited++
		case c.start(t, gang):
			c.ran++
			c.gangs = append(c.gangs, gang)
			if c.plain { // does it run whole?
				for i := range c.nodes {
					c.settle(i)
				}
				bound := 0
				for _, x := range gang {
					if x.at != assign.Left {
						bound++
					}
				}
				if lost := c.refused - before; lost > 0 && lost < bound && bound-lost < need {
					c.half++
				}
			}
		}
		if len(c.gangs) > 0 && (!found || c.rand.IntN(3) == 0) {
			c.end()
		}
	}
}

// Random gangs come to three nodes and end. With the ledger, no kubelet refuses a pod, no gang starts in part, and none
// waits that fits in kube-scheduler's order, by trying every way. By amounts alone, as without Tenon, pods are refused,
// and gangs start in part.
func TestACrowdOfGangs(t *testing.T) {
	const each = 50
	var sum [2]crowded
	for seed := range uint64(max(1, *gangCount/each)) {
		for k, plain := range []bool{false, true} {
			c := newCrowded(t, seed, plain)
			c.play(t, each)
			s := &sum[k]
			s.ran, s.waited, s.refused = s.ran+c.ran, s.waited+c.waited, s.refused+c.refused
			s.half, s.missed = s.half+c.half, s.missed+c.missed
		}
	}
	for k, name := range []string{"with the ledger", "by amounts"} {
		s := &sum[k]
		t.Logf("%s: %d gangs ran, %d waited; %d pods refused, %d gangs in part, %d waited although they fit", name, s.ran,
			s.waited, s.refused, s.half, s.missed)
	}
	if s := &sum[0]; s.refused+s.half+s.missed > 0 || s.ran < *gangCount/4 {
		t.Error("with the ledger, gangs are refused, start in part, or wait although they fit")
	}
	if s := &sum[1]; s.refused == 0 || s.half == 0 {
		t.Error("by amounts alone all gangs run: they show nothing")
	}
}
