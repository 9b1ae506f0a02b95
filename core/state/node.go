package state

import (
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Node is the state of one node at one moment. It never changes; the next state is another Node.
type Node struct {
	Name    string
	Quality Quality
	// From is Layout.From of an estimated node.
	From    string
	Machine *topo.Machine
	Rules   place.Rules
	// Entries are the pods that hold something: observed pods first, in the order in which the node admitted them, as
	// far as that is known. Predicted pods follow in binding order.
	Entries []Entry
	// Usage is the machine with all entries held.
	Usage *place.Usage
	// Others are the other possible states of the node, fewer than 16. They have no Others. They differ in what
	// assumed pods hold, and in whether the Unlisted and Gone pods are there. On an estimated node they also differ
	// in the NUMA nodes of some pods, because the report has only amounts.
	Others []*Node
	// Unsettled: the node may be in a state that is neither this one nor among Others. Until it reports, only pods
	// that hold nothing fit.
	Unsettled bool
	// Crowded: more may be free than Usage says, for one of two reasons. It is not known where pods keep what their
	// init containers held, so it counts as taken wherever it may be. Or the report may already contain pods that are
	// counted once more. Pods of several containers do not fit on a crowded node: if more is free than counted,
	// one container may get something else, which affects the next one.
	Crowded bool
	// Silent: a report of the node is overdue.
	Silent bool
	// Unlisted are pods that the node admitted long ago and that no report lists. Their entries have what was
	// predicted for them, and Others have the node without them.
	Unlisted []PodID
	// Gone are pods that the node's report lists and that no longer exist. The node has not reported their end.
	// Others have the node without them.
	Gone []PodID
	// News counts the reports, admissions and ends that were received for the node. A pod whose wait for its turn
	// timed out need not try again before News changes.
	News int
	// Refused has the shapes of pods that the node refused although Place predicted that they fit, and the kubelet's
	// reasons. Pods of these shapes do not fit until the node reports again.
	Refused map[string]place.RefusalReason
	// Promised are pods that have not come yet, and for which the node keeps room; see promised.go. The promises in Others
	// do not count.
	Promised []Promised
	// Inexact lists why predictions for this node may differ from what its kubelet does, from the last report. It
	// must not be changed.
	Inexact []Inexact

	// Basis is what the methods need beyond the other fields. It is empty if the node was made by hand.
	Basis Basis
}

// Basis is what the ledger adds to the state of a node, for the node's methods.
type Basis struct {
	// Empty is the node without any pod; nil if it has to be computed from Usage.
	Empty *place.Usage
	// Groups are the memory manager's groups by position of the NUMA node, if they do not follow from the entries.
	Groups map[int]place.MemoryGroup
	// Uncertain are the UIDs of pods that may hold something else than their entries say, or may have ended.
	Uncertain []string
	// Statuses has by UID what the statuses of the node's pods imply for a restart; nil if there is nothing. The map
	// does not change.
	Statuses map[string]place.Statuses
	// Relations has the keys of the pods that are related to others, by UID; nil if there are none. The map does not
	// change. It may have pods that are not on the node.
	Relations map[string]Relations
	// Unplaced are the pods of an estimated node whose NUMA nodes are unknown; nil on other nodes.
	Unplaced Unplaced
	Queue    Queue
}

// Unplaced are pods that the amounts of a node contain, at NUMA nodes that are unknown. They never change.
type Unplaced interface {
	// Has reports whether a pod is unplaced.
	Has(uid string) bool
	// Without returns the state of n after the unplaced pods with these UIDs have ended. The result's Others are the
	// other possible states.
	Without(n *Node, uids []string) *Node
}

// Queue describes the assumed pods of a node that a pod reserved now may have to wait for.
type Queue struct {
	// Shape is the shape of the pods that are not known to be admitted. Mixed: they have several shapes, or uncertain
	// holdings, so any pod may have to wait.
	Shape string
	Mixed bool
	// Pods is the number of the pods in the queue, Waiting the number of those pods that had no turn yet.
	Pods, Waiting int
}

// Without returns the state of the node without the pods that have these UIDs.
func (n *Node) Without(uids ...string) *Node {
	out := n.withoutEntries(uids)
	if n.Basis.Unplaced == nil {
		return out
	}
	return n.Basis.Unplaced.Without(out, uids)
}

// withoutEntries is Without for pods that have entries.
func (n *Node) withoutEntries(uids []string) *Node {
	gone := map[string]bool{}
	for _, uid := range uids {
		gone[uid] = true
	}
	out := *n
	out.Entries = nil
	var departed []Entry
	for _, e := range n.Entries {
		if gone[e.Pod.UID] {
			departed = append(departed, e)
		} else {
			out.Entries = append(out.Entries, e)
		}
	}
	out.Basis.Groups = GroupsWithout(n.Basis.Groups, departed)
	out.Usage = n.Empty().Hold(Holdings(out.Entries)...).WithGroups(out.Basis.Groups)
	out.Others = each(n.Others, func(o *Node) *Node { return o.withoutEntries(uids) })
	return &out
}

// GroupsWithout returns the memory groups that stay valid after the pods in departed are gone: groups in which these
// pods had no memory.
func GroupsWithout(groups map[int]place.MemoryGroup, departed []Entry) map[int]place.MemoryGroup {
	var touched topo.Mask
	for _, h := range Holdings(departed) {
		for _, b := range h.Memory {
			touched |= b.NUMAs
		}
	}
	if touched == 0 {
		return groups
	}
	out := map[int]place.MemoryGroup{}
	for i, g := range groups {
		if (g.NUMAs|1<<uint(i))&touched == 0 {
			out[i] = g
		}
	}
	return out
}

// each returns the results of do, in the order of the nodes.
func each(in []*Node, do func(*Node) *Node) (out []*Node) {
	for _, n := range in {
		out = append(out, do(n))
	}
	return out
}

// With returns the state of the node after it has also admitted the pod. If n would refuse the pod, With returns n
// and ok is false. Those Others that would refuse the pod stay as they are.
func (n *Node) With(id PodID, p *place.Pod) (out *Node, ok bool) {
	v := place.Place(n.Usage, p)
	if !v.Fits() {
		return n, false
	}
	out = n.having(id, v)
	out.Others = each(n.Others, func(o *Node) *Node { w, _ := o.With(id, p); return w })
	return out, true
}

// having returns the state of the node in which a pod also holds what a verdict has, with the Others of n.
func (n *Node) having(id PodID, v place.Verdict) *Node {
	out := *n
	out.Entries = append(n.Entries[:len(n.Entries):len(n.Entries)], Entry{Pod: id, Holdings: v.Holdings})
	out.Usage = n.Usage.Hold(v.Holdings...)
	return &out
}

// Entry returns the entry of a pod. The result is false if the pod has none, since it holds nothing or is not there.
func (n *Node) Entry(uid string) (Entry, bool) {
	for _, e := range n.Entries {
		if e.Pod.UID == uid {
			return e, true
		}
	}
	return Entry{}, false
}

// RestartHazards returns what goes wrong if the node's kubelet restarts, by the node's holdings and the statuses of
// its pods. For an estimated node it returns none, since such a node does not report what the hazards depend on.
func (n *Node) RestartHazards() []place.Hazard {
	if n.Quality == Estimated || n.Usage == nil {
		return nil
	}
	var pods []place.Readmitted
	for _, e := range n.Entries {
		if s, ok := n.Basis.Statuses[e.Pod.UID]; ok {
			pods = append(pods, place.Readmitted{Pod: e.Pod.String(), Holdings: e.Holdings, Statuses: s})
		}
	}
	return n.Usage.RestartHazards(pods...)
}

// Waits returns the largest number of pods that a pod of the given shape might have to wait for if it were reserved
// now. waiting is how many of these pods still wait for their own turn.
func (n *Node) Waits(shape string) (pods, waiting int) {
	if q := n.Basis.Queue; q.Mixed || q.Shape != "" && q.Shape != shape {
		return q.Pods, q.Waiting
	}
	return 0, 0
}

// Unplaced reports whether the amounts of an estimated node contain the pod, but its NUMA nodes are unknown.
func (n *Node) Unplaced(uid string) bool {
	return n.Basis.Unplaced != nil && n.Basis.Unplaced.Has(uid)
}

// Crowds reports whether the node is too crowded for a pod: what one container of the pod gets affects the next.
func (n *Node) Crowds(p *place.Pod) bool { return n.Crowded && len(p.Containers) > 1 }

// unenforced reports whether the pod might run on the node although its demand is violated: the node reports amounts
// only, so the prediction may be wrong, and the kubelet's own policy would not refuse the pod.
func (n *Node) unenforced(p *place.Pod, d place.Demand) bool {
	return n.Quality == Estimated && d.Binds() && !n.Rules.Enforces(p, d)
}
