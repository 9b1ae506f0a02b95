package plugin

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/assign"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/overlay"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/arrange"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/preempt"
)

// This file lets a group cycle run as if pods had been evicted: it books nothing in the ledger.

// supposition is the ledger without some pods, and with the pods that a group cycle has reserved meanwhile. Only the
// goroutine of the scheduling loop uses it.
type supposition struct {
	snap  *ledger.Snapshot
	nodes overlay.Nodes
}

// Suppose implements preempt.GroupPlugin. It begins a supposition, by which the cycles judge that begin before end is
// called.
func (p victims) Suppose() (gone, back func(node, uid string), end func()) {
	t := &supposition{snap: p.Book.Snapshot()}
	p.supposed.Store(t)
	gone = func(node, uid string) { t.change(node, func(o *overlay.Node) { o.Remove(uid) }) }
	back = func(node, uid string) { t.change(node, func(o *overlay.Node) { o.Restore(uid) }) }
	return gone, back, func() { p.supposed.Store(nil) }
}

func (t *supposition) change(node string, edit func(*overlay.Node)) {
	t.nodes = t.nodes.Change(t.snap.Node(node), edit)
}

// node returns a node as it is supposed to be, or nil if the ledger does not have it.
func (t *supposition) node(name string) *state.Node {
	if o := t.nodes[name]; o != nil {
		return o.Base
	}
	return t.snap.Node(name)
}

// together returns the node on which pods with a key of [place.Demand.Together] are supposed to be, or "". partners are
// the nodes on which they are.
func (t *supposition) together(key string, partners []string) string {
	for _, name := range partners {
		if t.nodes[name] == nil || t.nodes[name].Base.Together(key) {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		if t.nodes[name].Base.Together(key) {
			return name
		}
	}
	return ""
}

// nodeNow returns a node of the ledger, or as it is supposed to be.
func (p *Plugin) nodeNow(name string) *state.Node {
	if t := p.supposed.Load(); t != nil {
		return t.node(name)
	}
	return p.Book.Snapshot().Node(name)
}

// together returns the node on which pods with a key of [place.Demand.Together] are, or are supposed to be, or "".
func (p *Plugin) together(key string) string {
	if t := p.supposed.Load(); t != nil && key != "" {
		return t.together(key, p.Book.Partners(key))
	}
	return p.Book.Together(key)
}

// partnersOf returns the node on which a pod has to be because of the pods that it has to be together with, or "": the
// node that has some of them or, if none has, the first of the given nodes to which one of them is nominated that
// takes precedence. key is the pod's key of [place.Demand.Together].
func (p *Plugin) partnersOf(pod *v1.Pod, key string, nodes []fwk.NodeInfo) string {
	at := p.together(key)
	if at != "" || key == "" || p.handle == nil {
		return at
	}
	for _, info := range nodes {
		name := info.Node().Name
		if (at == "" || name < at) && slices.ContainsFunc(p.handle.NominatedPodsForNode(name), func(o fwk.PodInfo) bool {
			return apipod.Relations(o.GetPod()).Together == key && precedes(o.GetPod(), pod)
		}) {
			at = name
		}
	}
	return at
}

// precedes reports whether a pod has to go where another one that is nominated goes. It has to if the nominated pod's
// priority is as high, as kube-scheduler counts only such pods. Of two nominated pods with equal priorities, the older
// one takes precedence, so that they do not wait for each other.
func precedes(nominated, pod *v1.Pod) bool {
	if nominated.UID == pod.UID {
		return false
	}
	order := cmp.Compare(corev1.PodPriority(pod), corev1.PodPriority(nominated))
	if order == 0 && pod.Status.NominatedNodeName == "" {
		return true
	}
	return cmp.Or(order, nominated.CreationTimestamp.Compare(pod.CreationTimestamp.Time),
		cmp.Compare(nominated.UID, pod.UID)) < 0
}

// preFilter is PreFilter within a supposition. It records nothing, and names no nodes.
func (t *supposition) preFilter(p *Plugin, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s, status := translate(pod)
	if status != nil {
		return status
	}
	if s.pod.Plain() {
		return fwk.NewStatus(fwk.Skip)
	}
	s.strategy = p.scoring(s.wish)
	p.takeSnapshot(s, pod, t.snap, nodes)
	s.fits, s.unnarrowed, s.supposed, s.overlay = nil, true, t, t.nodes
	cs.Write(stateKey, s)
	return nil
}

// reserve is Reserve within a supposition.
func (t *supposition) reserve(p *Plugin, cs fwk.CycleState, s *podState, pod *v1.Pod, node string) *fwk.Status {
	n := t.node(node)
	if n == nil || !p.guard.Knows(n) {
		arrange.Placed(cs, s.uid, func() int64 { return p.strategy.Unknown() })
		return nil // Filter has let the pod go there
	}
	v := n.Place(s.pod, s.demand)
	if !v.Fits() {
		return p.refusal(s.pod, v)
	}
	t.change(node, func(o *overlay.Node) { o.Hold(kube.ID(pod), s.pod, s.demand) })
	arrange.Placed(cs, s.uid, func() int64 {
		return p.strategy.Cost(n.Usage, s.pod, v, n.Quality == state.Estimated)
	})
	return nil
}

// unreserve is Unreserve within a supposition.
func (t *supposition) unreserve(uid, node string) {
	t.change(node, func(o *overlay.Node) { o.Drop(uid) })
}

// Node implements preempt.GroupPlugin.
func (p victims) Node(name string) *state.Node {
	if n := p.nodeNow(name); p.guard.Knows(n) {
		return n
	}
	return nil
}

// evictionBudget bounds the containers that are placed to find victims for a gang: some tenths of a second.
const evictionBudget = assign.GangBudget

// Cheapest implements preempt.GroupPlugin.
func (p victims) Cheapest(g preempt.Group) ([][]int, error) {
	gang, err := newGang(g.Pods)
	if err != nil || len(gang.members) == 0 {
		return nil, err
	}
	problem := p.problem(gang, g.Nodes, g.Least, func(string, string) bool { return false })
	problem.Budget, problem.Least = evictionBudget/max(1, len(g.Closed)), max(1, problem.Least)
	nodes := problem.Nodes
	var out [][]int
	for _, closed := range g.Closed {
		problem.Nodes = slices.Clone(nodes)
		for i := range nodes {
			if closed(i) {
				problem.Nodes[i] = nil
			}
		}
		e := assign.Evictions{Problem: problem, Units: g.Units, Budgets: g.Budgets}
		e.Room = func(node int, pods, gone []int) bool {
			return hasRoom(g.Nodes[node], gang.members, pods, leaving(g, node, gone))
		}
		set, spent := assign.Evict(e)
		if spent {
			p.CutShort()
		}
		out = append(out, set)
	}
	return out, nil
}

// leaving returns the pods of some units that are on a node.
func leaving(g preempt.Group, node int, units []int) (out []*v1.Pod) {
	for _, i := range units {
		for _, h := range g.Units[i].Pods {
			if h.Node == node {
				out = append(out, g.Victims[h.UID])
			}
		}
	}
	return out
}
