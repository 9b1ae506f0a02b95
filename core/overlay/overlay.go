// Package overlay has hypothetical nodes, without some of their pods and with others, for the dry runs of preemption
// and for pods that are nominated to a node.
//
// Invariant: what a node gives a pod depends on the other pods there, so every change is computed from the real node.
// Nodes that were returned do not change. The package does not decide which pods leave, and computes verdicts only
// for pods that are added.
package overlay

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Node is one hypothetical node.
type Node struct {
	redeem  redeemed
	removed []string // UIDs
	held    []addition
	added   []addition
	// Base is the node without the removed pods, and with the held ones. Full also has the added pods that fit. The pods
	// that will have ended when an added pod comes are still in Full.
	Base, Full *state.Node
}

// redeemed is a pod that uses up what the node has promised a request; the zero value is none.
type redeemed struct {
	request string
	pod     *place.Pod
	demand  place.Demand
	claims  string // see [state.Promised]
}

// addition is a pod that the node does not have yet: it is held there, or only nominated to the node.
type addition struct {
	id  state.PodID
	pod *place.Pod
	// demand has the keys by which it is related to other pods.
	demand place.Demand
	// leaving are the UIDs of pods that will have ended when the added pod comes.
	leaving []string
}

// Redeem takes back one promise of the node to a request, which the pod uses up; see [state.Node.Redeem].
func (n *Node) Redeem(request string, p *place.Pod, d place.Demand, claims string) {
	n.redeem = redeemed{request, p, d, claims}
}

// Add undoes the removal of a pod, or adds a pod that the node does not have, after all others. For a pod that is
// there, it does nothing. d has the relations of the added pod to others, and leaving has the UIDs of pods that will
// have ended when it comes.
func (n *Node) Add(id state.PodID, p *place.Pod, d place.Demand, leaving []string) {
	if i := slices.Index(n.removed, id.UID); i >= 0 {
		n.removed = slices.Delete(n.removed, i, i+1)
		return
	}
	if _, there := n.Base.Entry(id.UID); !there && n.index(id.UID) < 0 {
		n.added = append(n.added, addition{id, p, d, leaving})
	}
}

// Restore undoes the removal of a pod. For a pod that was not removed, it does nothing.
func (n *Node) Restore(uid string) {
	n.removed = slices.DeleteFunc(n.removed, func(r string) bool { return r == uid })
}

// Hold adds a pod before all pods that Add adds, and after those that were held before. The pod has to fit on Base.
func (n *Node) Hold(id state.PodID, p *place.Pod, d place.Demand) {
	n.held = append(n.held, addition{id: id, pod: p, demand: d})
}

// Drop removes a pod that was held.
func (n *Node) Drop(uid string) {
	n.held = slices.DeleteFunc(n.held, func(a addition) bool { return a.id.UID == uid })
}

func (n *Node) index(uid string) int {
	return slices.IndexFunc(n.added, func(a addition) bool { return a.id.UID == uid })
}

// Remove removes a pod of the node, or undoes an addition.
func (n *Node) Remove(uid string) {
	if i := n.index(uid); i >= 0 {
		n.added = slices.Delete(n.added, i, i+1)
		return
	}
	if !slices.Contains(n.removed, uid) {
		n.removed = append(n.removed, uid)
	}
}

// Removes reports whether some pods of the node are removed.
func (n *Node) Removes() bool { return len(n.removed) > 0 }

// Spares reports whether the added pods still fit after p, which is admitted first, where their demands want them.
// Added pods that do not fit without p do not count.
func (n *Node) Spares(p *place.Pod, d place.Demand) bool {
	if len(n.added) == 0 {
		return true
	}
	with, _ := n.Base.Join(state.PodID{UID: "new"}, p, d)
	before, after := n.admit(n.Base), n.admit(with)
	for i := range before {
		if before[i] && !after[i] {
			return false
		}
	}
	return true
}

// admit admits the added pods to base one after the other, each after the pods in its field leaving have ended. It
// returns which of the added pods fit.
func (n *Node) admit(base *state.Node) []bool {
	out := make([]bool, len(n.added))
	for i, a := range n.added {
		if len(a.leaving) > 0 {
			base = base.Without(a.leaving...)
		}
		if out[i] = base.Takes(a.pod, a.demand); out[i] {
			base, _ = base.Join(a.id, a.pod, a.demand)
		}
	}
	return out
}

// Nodes are the hypothetical nodes of one attempt to schedule a pod, by name. They do not change.
type Nodes map[string]*Node

// Change returns a copy of n in which the function edit has changed the hypothetical node for the real node. edit may
// call only Redeem, Add, Remove, Restore, Hold and Drop; Change then computes Base and Full. If the real node is nil,
// Change returns n itself.
func (n Nodes) Change(node *state.Node, edit func(*Node)) Nodes {
	if node == nil {
		return n
	}
	next := &Node{Base: node}
	if o, ok := n[node.Name]; ok {
		next.removed, next.held, next.added = slices.Clone(o.removed), slices.Clone(o.held), slices.Clone(o.added)
		next.redeem = o.redeem
	}
	edit(next)
	if r := next.redeem; r.request != "" {
		next.Base, _, _ = node.Redeem(r.request, r.pod, r.demand, r.claims)
	}
	if len(next.removed) > 0 {
		next.Base = next.Base.Without(next.removed...)
	}
	for _, a := range next.held {
		next.Base, _ = next.Base.Join(a.id, a.pod, a.demand)
	}
	next.Full = next.Base
	for _, a := range next.added {
		next.Full, _ = next.Full.Join(a.id, a.pod, a.demand)
	}
	out := maps.Clone(n)
	if out == nil {
		out = Nodes{}
	}
	out[node.Name] = next
	return out
}
