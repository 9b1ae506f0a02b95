// Package overlay has hypothetical nodes, without some of their pods and with others, for the dry runs of preemption
// and for pods that are nominated to a node.
//
// Invariant: what a node gives a pod depends on the other pods there, so every change is computed from the real node.
// Nodes that were returned do not change. The package does not decide which pods leave, and computes verdicts only for
// pods that are added.
package overlay

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Node is one hypothetical node.
type Node struct {
	removed []string // UIDs
	added   []addition
	// Base is the node without the removed pods; Full also has the added pods.
	Base, Full *state.Node
}

// addition is a pod that the node does not have yet, because it is only nominated to it.
type addition struct {
	id  state.PodID
	pod *place.Pod
	// leaving are the UIDs of pods that will have ended when it comes.
	leaving []string
}

// Add undoes the removal of a pod. A pod that the node does not have is added after all others; the pods with the UIDs
// leaving will have ended when it comes.
func (o *Node) Add(id state.PodID, p *place.Pod, leaving []string) {
	if i := slices.Index(o.removed, id.UID); i >= 0 {
		o.removed = slices.Delete(o.removed, i, i+1)
		return
	}
	if _, there := o.Base.Entry(id.UID); !there && o.index(id.UID) < 0 {
		o.added = append(o.added, addition{id, p, leaving})
	}
}

func (o *Node) index(uid string) int {
	return slices.IndexFunc(o.added, func(a addition) bool { return a.id.UID == uid })
}

// Remove removes a pod.
func (o *Node) Remove(uid string) {
	if i := o.index(uid); i >= 0 {
		o.added = slices.Delete(o.added, i, i+1)
		return
	}
	o.removed = append(o.removed, uid)
}

// Removes reports whether some pods of the node are removed.
func (o *Node) Removes() bool { return len(o.removed) > 0 }

// Spares reports whether the added pods still fit after p, which is admitted first. Added pods that do not fit without
// p do not count.
func (o *Node) Spares(p *place.Pod) bool {
	if len(o.added) == 0 {
		return true
	}
	with, _ := o.Base.With(state.PodID{}, p)
	before, after := o.admit(o.Base), o.admit(with)
	for i := range before {
		if before[i] && !after[i] {
			return false
		}
	}
	return true
}

// admit admits the added pods one after the other, each after the pods have left whose end it waits for. It returns
// which of them fit.
func (o *Node) admit(n *state.Node) []bool {
	out := make([]bool, len(o.added))
	for i, a := range o.added {
		if len(a.leaving) > 0 {
			n = n.Without(a.leaving...)
		}
		n, out[i] = n.With(a.id, a.pod)
	}
	return out
}

// Nodes are the hypothetical nodes of one attempt to schedule a pod, by name. They do not change.
type Nodes map[string]*Node

// Change returns nodes with one of them changed by a function. node is the real node; if it is nil, Change returns all.
func (all Nodes) Change(node *state.Node, by func(*Node)) Nodes {
	if node == nil {
		return all
	}
	next := &Node{Base: node}
	if o, ok := all[node.Name]; ok {
		next.removed, next.added = slices.Clone(o.removed), slices.Clone(o.added)
	}
	by(next)
	if len(next.removed) > 0 {
		next.Base = node.Without(next.removed...)
	}
	next.Full = next.Base
	for _, a := range next.added {
		next.Full, _ = next.Full.With(a.id, a.pod)
	}
	out := maps.Clone(all)
	if out == nil {
		out = Nodes{}
	}
	out[node.Name] = next
	return out
}
