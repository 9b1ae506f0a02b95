// Package ledger keeps, for every node of a cluster, its machine, its rules, and the holdings of its pods. A holding is
// observed if the node reported it, and predicted if it was computed for an assumed pod: one that is reserved or bound,
// and is in no report yet.
//
// A [Book] takes events and returns immutable values, [Node] and [Snapshot], so any number of readers decide without
// locks. One function decides whether a pod fits: [Node.Place]. A book refuses to reserve what does not fit: it
// computes the verdict again under the lock.
//
// What a pod gets depends on the order in which its node admits pods, and a kubelet sorts by creation time what reaches
// it together. So assumed pods take turns ([Book.Turn]). A pod may be bound when every pod before it is known to be
// admitted, is bound and older, has the same shape, or fits together with it in any order. Pods that other schedulers
// bind take no turn: the node may then be in several states ([Node.Others]), and a verdict holds if it holds in all of
// them. If something is released beside an assumed pod, what the pod got is uncertain: the node is unsettled until its
// next report ([Node.Unsettled]). docs/design/order.md explains the rules.
package ledger

import (
	"github.com/tenon-numa/tenon/core/estimate"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// PodID names a pod. Pods are equal if their UIDs are; namespace and name are for people.
type PodID struct {
	UID, Namespace, Name string
}

// String returns "namespace/name".
func (p PodID) String() string { return p.Namespace + "/" + p.Name }

// Source says where holdings come from.
type Source int

const (
	// Predicted holdings were computed for a pod that the node has not reported yet.
	Predicted Source = iota
	// Observed holdings were reported by the node.
	Observed
	// Counted holdings are in the amounts that a coarse node reports. Their pod was computed, and the amounts agree
	// with it. The entry without a UID has the holdings of unknown pods.
	Counted
)

// Entry is one pod on a node.
type Entry struct {
	Pod      PodID
	Source   Source
	Holdings []place.Holding
}

// Quality says how precise a node's reports are.
type Quality int

const (
	// Exact means that the node reports which pod holds which CPU, memory block and device.
	Exact Quality = iota
	// Coarse means that the node reports how much of each NUMA node is held; ids are made up.
	Coarse
)

// String returns "exact" or "coarse".
func (q Quality) String() string { return [...]string{"exact", "coarse"}[q] }

// Layout is a node's report.
type Layout struct {
	Machine *topo.Machine
	Rules   place.Rules
	// Entries are the pods that hold something, in the order in which the node admitted them.
	Entries []Entry
	// Groups are the memory manager's groups by position of the NUMA node, if they do not follow from the holdings.
	Groups map[int]place.MemoryGroup
	// Amounts are set if the node does not report which pod holds what; Entries and Groups are then empty.
	Amounts *Amounts
	// From is the kind of the object that reported the amounts, for people.
	From string
	// Inexact lists why predictions for this node may differ from what its kubelet does.
	Inexact []Inexact
}

// Node is the state of one node at one moment. It never changes; the next state is another Node.
type Node struct {
	Name    string
	Quality Quality
	// From is Layout.From of a coarse node.
	From    string
	Machine *topo.Machine
	Rules   place.Rules
	// Entries are the pods that hold something, in the order in which the node admitted them, as far as that is known:
	// observed ones first, then predicted ones in binding order.
	Entries []Entry
	// Usage is the machine with all entries held.
	Usage *place.Usage
	// Others are the other possible states of the node, fewer than maxStates. They have no Others. They differ in what
	// assumed pods hold.
	Others []*Node
	// Unsettled: the node may be in a state that is neither this one nor among Others. Until it reports, only pods that
	// hold nothing fit.
	Unsettled bool
	// Crowded: what pods keep from their init containers may be in more places than Others show, and counts in all of
	// them; or a report may already contain pods that are counted in addition. Pods of several containers do not fit:
	// what one container gets affects the next, and if more is free than is counted, it may get something else.
	Crowded bool
	// Silent: a report of the node is overdue.
	Silent bool
	// Unlisted are pods that the node admitted long ago and that no report lists. Their entries have what was predicted
	// for them, and Others have the node without them.
	Unlisted []PodID
	// Gone are pods that the node's report lists and that no longer exist. The node has not reported their end. Others
	// have the node without them.
	Gone []PodID
	// News counts the reports, admissions and ends that were received for the node. A pod whose wait for its turn timed
	// out need not try again before News changes.
	News int
	// Refused has the shapes of pods that the node refused although Place predicted that they fit, and the kubelet's
	// reasons. Pods of these shapes do not fit until the node reports again.
	Refused map[string]place.RefusalReason
	// Inexact lists why predictions for this node may differ from what its kubelet does, from the last report. It must
	// not be changed.
	Inexact []Inexact

	queue queue
	// empty is the node without any pod; nil if it has to be computed from Usage.
	empty *place.Usage

	// uncertain are the UIDs of pods that may hold something else than their entries say, or may have ended.
	uncertain []string

	groups map[int]place.MemoryGroup
	// statuses has by UID what Book.Status recorded of the node's pods; nil if there is nothing. The map does not change.
	statuses map[string]place.Statuses
	// unplaced are the pods of an estimated node whose NUMA nodes are unknown; nil on other nodes.
	unplaced *estimate.Unplaced
}

// Without returns the state of the node without the pods that have these UIDs.
func (n *Node) Without(uids ...string) *Node { return n.withoutEntries(uids).withoutUnplaced(uids) }

// withoutEntries is Without for pods that have entries.
func (n *Node) withoutEntries(uids []string) *Node {
	gone := map[string]bool{}
	for _, uid := range uids {
		gone[uid] = true
	}
	out := *n
	out.Entries = nil
	var left []Entry
	for _, e := range n.Entries {
		if gone[e.Pod.UID] {
			left = append(left, e)
		} else {
			out.Entries = append(out.Entries, e)
		}
	}
	out.groups = untouched(n.groups, left)
	out.Usage = n.Empty().Hold(holdings(out.Entries)...).WithGroups(out.groups)
	out.Others = each(n.Others, func(o *Node) *Node { return o.withoutEntries(uids) })
	return &out
}

// untouched returns the memory groups that stay valid after some pods have left: the groups of NUMA nodes on which
// those pods had no memory.
func untouched(groups map[int]place.MemoryGroup, left []Entry) map[int]place.MemoryGroup {
	var touched topo.Mask
	for _, h := range holdings(left) {
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

func each(in []*Node, do func(*Node) *Node) (out []*Node) {
	for _, n := range in {
		out = append(out, do(n))
	}
	return out
}

// With returns the state of the node with the pod admitted too. If the pod would be refused, the node is unchanged and
// ok is false.
func (n *Node) With(id PodID, p *place.Pod) (out *Node, ok bool) {
	v := place.Place(n.Usage, p)
	if !v.Fits() {
		return n, false
	}
	next := *n
	next.Entries = append(n.Entries[:len(n.Entries):len(n.Entries)], Entry{Pod: id, Holdings: v.Holdings})
	next.Usage = n.Usage.Hold(v.Holdings...)
	next.Others = each(n.Others, func(o *Node) *Node { w, _ := o.With(id, p); return w })
	return &next, true
}

// Entry returns the entry of a pod.
func (n *Node) Entry(uid string) (Entry, bool) {
	for _, e := range n.Entries {
		if e.Pod.UID == uid {
			return e, true
		}
	}
	return Entry{}, false
}

func holdings(entries []Entry) []place.Holding {
	var out []place.Holding
	for _, e := range entries {
		out = append(out, e.Holdings...)
	}
	return out
}
