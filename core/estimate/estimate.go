// Package estimate infers what pods hold on a node that reports amounts only: how much of each NUMA node is held, and
// not by which pod. A NodeResourceTopology is such a report.
//
// A [Node] takes reports ([Node.Report]) and the ends of pods ([Node.End]), and answers two questions. Which pods do
// the amounts contain? A pod that they do not contain yet is charged beside them, by the caller. In which states may
// the node be ([Node.States])? A pod surely fits if it fits in each of them, beside the pods that are charged. All
// holdings have CPU ids and device ids that are made up: they count, NUMA node by NUMA node, and mean nothing else.
//
// The estimate is conservative. Where it cannot tell whether a pod is in the amounts, the pod counts twice. Where it
// cannot tell what a pod gave back, nothing is given back in one of the states. Where there are more states than are
// followed, the answer says so. docs/design/estimates.md explains the rules.
//
// The package keeps no clock, no lock and no order of admission: a caller calls the methods of one Node one after the
// other, and numbers the moments itself. Package ledger does. It refuses nothing: amounts that no set of pods explains
// are held by nobody in particular.
package estimate

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
)

// PodID names a pod. The UID decides; namespace and name are passed on.
type PodID struct {
	UID, Namespace, Name string
}

// Entry is what a pod holds that is in the amounts. The entry without a UID is what nobody is known to hold.
type Entry struct {
	Pod      PodID
	Holdings []place.Holding
}

func holdings(entries []Entry) (out []place.Holding) {
	for _, e := range entries {
		out = append(out, e.Holdings...)
	}
	return out
}

// Pod is a pod that is bound to the node, and that the amounts were not known to contain so far.
type Pod struct {
	ID    PodID
	Spec  *place.Pod
	Shape string // Spec.Shape()
	// Options are the holdings that were predicted, each of them possible; none where the pod was not predicted. More:
	// it may hold something else, too.
	Options [][]place.Holding
	More    bool
	// Unknown: it is not known what the pod holds, whatever was predicted.
	Unknown bool
	// Bound and Admitted are the moments since which it may be bound, and is known to be admitted; 0 is never.
	Bound, Admitted int
}

// first returns the likeliest holdings, or nil.
func (p *Pod) first() []place.Holding {
	if len(p.Options) == 0 {
		return nil
	}
	return p.Options[0]
}

// counted is a pod that the amounts contain. spec is nil where it is not known.
type counted struct {
	id   PodID
	spec *place.Pod
	// absent: the amounts may be without it by now. An exporter may see an end before the API server tells of it.
	absent bool
}

// Node is what is inferred of one node. The zero Node is one that has not reported.
type Node struct {
	frame
	amounts Amounts
	// entries are the pods whose part of the amounts is known, and the rest; base is the node with those that run.
	entries []Entry
	base    State
	// counted are the pods that the amounts contain, by UID; ended are the UIDs of those that have ended since.
	counted map[string]counted
	ended   map[string]bool
	// moved are ended pods whose part of the amounts is not known.
	moved []counted
	// early are pods that ended before a report contained them. One that comes late may contain them.
	early []Pod
	// started has the UIDs of pods whose init containers are over.
	started map[string]bool
	// last are the amounts of the last report; nil: there was none.
	last *explained
	// withheld are the amounts of ended pods that are not given back, because the reported amounts may contain them.
	withheld map[string]quantities
	// incomplete: what pods keep of their init containers may be in more places than States says.
	incomplete bool
	// doubled: the amounts may contain a pod that is charged beside them, so more may be free than is counted.
	doubled bool
}

// explained are the amounts of a report.
type explained struct {
	held quantities
	at   int // the moment of the report
	// from are the amounts of the pods that the report certainly contains. Together with some of the pods that it may
	// contain they make held; from is nil where no choice of pods does.
	from quantities
}

// Report is what a node says of itself, and what the caller knows beside it.
type Report struct {
	// Empty is the machine with its rules, and nothing on it.
	Empty   *place.Usage
	Amounts Amounts
	// Bound are the pods that are charged to the node beside the last amounts, in any order.
	Bound []Pod
	// Settled: the predictions for these pods named all states of the node.
	Settled bool
	// Now is a moment later than those of all pods.
	Now int
}

// Landed is a pod that the amounts contain from now on.
type Landed struct {
	UID string
	// Foreseen: only one thing was predicted for it. Agrees: the amounts have room for what was predicted for all pods.
	Foreseen, Agrees bool
}

// Inherit notes which pods the node reported while it still said who holds what. The next amounts contain them, and
// where is not known. ended says which of them have ended since.
func (n *Node) Inherit(pods []PodID, ended func(uid string) bool) {
	n.counted, n.ended = map[string]counted{}, map[string]bool{}
	for _, id := range pods {
		n.counted[id.UID] = counted{id: id}
		if ended(id.UID) {
			n.ended[id.UID] = true
		}
	}
}

// Report takes the amounts of the node, and returns which of the bound pods they contain.
func (n *Node) Report(r Report) []Landed {
	if n.counted == nil {
		n.counted, n.ended = map[string]counted{}, map[string]bool{}
	}
	foreseen := !n.incomplete && r.Settled
	n.frame, n.amounts = n.frame.of(r.Empty, r.Amounts.Whole), r.Amounts
	x := &reading{Node: n, bound: r.Bound, now: r.Now, held: quantitiesOf(r.Amounts.Held)}
	x.old = slices.DeleteFunc(slices.Clone(n.entries), func(e Entry) bool { return e.Pod.UID == "" })
	x.count()
	n.moved = slices.DeleteFunc(slices.Clone(n.moved), func(c counted) bool { return !x.in[c.id.UID] })
	old := slices.DeleteFunc(x.old, func(e Entry) bool { return n.ended[e.Pod.UID] && !x.in[e.Pod.UID] })
	landed := slices.DeleteFunc(slices.Clone(r.Bound), func(p Pod) bool { return !x.in[p.ID.UID] })
	late := x.late()
	fresh, u := old, n.empty.Hold(holdings(old)...)
	for _, p := range slices.Concat(landed, late) {
		if foreseen && n.certain(&p) {
			hs := n.lasting(p.ID.UID, free(u, &p))
			u = u.Hold(hs...)
			fresh = append(fresh[:len(fresh):len(fresh)], Entry{Pod: p.ID, Holdings: hs})
		}
	}
	agrees := x.assign(old, fresh)
	for _, p := range late {
		if !slices.ContainsFunc(n.entries, func(e Entry) bool { return e.Pod.UID == p.ID.UID }) {
			n.moved = append(n.moved[:len(n.moved):len(n.moved)], counted{id: p.ID, spec: p.Spec})
		}
	}
	var out []Landed
	for _, p := range landed {
		n.counted[p.ID.UID] = counted{id: p.ID, spec: p.Spec}
		out = append(out, Landed{UID: p.ID.UID, Foreseen: foreseen && n.certain(&p), Agrees: agrees})
	}
	n.tidy()
	n.renew()
	return out
}

// tidy forgets pods that have ended and that the amounts do not contain any more.
func (n *Node) tidy() {
	for uid := range n.ended {
		delete(n.counted, uid)
		if !slices.ContainsFunc(n.entries, func(e Entry) bool { return e.Pod.UID == uid }) &&
			!slices.ContainsFunc(n.moved, func(c counted) bool { return c.id.UID == uid }) {
			delete(n.ended, uid)
		}
	}
}

// renew computes the node's base again.
func (n *Node) renew() {
	n.base.Entries = slices.DeleteFunc(slices.Clone(n.entries), func(e Entry) bool { return n.ended[e.Pod.UID] })
	n.base.Usage = n.empty.Hold(holdings(n.base.Entries)...)
}

// Base returns what the amounts say, without pods that have ended and whose part of the amounts is known.
func (n *Node) Base() State { return n.base }

// Counts reports whether the amounts contain a pod that has not ended, as far as is known.
func (n *Node) Counts(uid string) bool {
	_, is := n.counted[uid]
	return is
}

// Pods returns the UIDs of the pods that the amounts contain, in ascending order.
func (n *Node) Pods() []string {
	uids := slices.Collect(maps.Keys(n.counted))
	for _, e := range n.entries {
		if e.Pod.UID != "" {
			uids = append(uids, e.Pod.UID)
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// Ended reports whether the amounts contain a pod that has ended.
func (n *Node) Ended(uid string) bool { return n.ended[uid] }

// EndedPods returns the UIDs of the pods that have ended and are in the amounts.
func (n *Node) EndedPods() []string { return slices.Sorted(maps.Keys(n.ended)) }

// End notes that a pod has ended which the amounts contain. A pod that ends twice ended once.
func (n *Node) End(uid string) {
	if n.ended[uid] || n.empty == nil {
		return
	}
	if c, is := n.counted[uid]; is && !c.absent && n.base.entry(uid) < 0 {
		n.moved = append(n.moved[:len(n.moved):len(n.moved)], c)
	}
	n.ended[uid] = true
	n.renew()
}

// maxEarly bounds the pods that are remembered though no report ever contained them.
const maxEarly = 32

// EndEarly notes that a bound pod has ended before the amounts contained it.
func (n *Node) EndEarly(p Pod) {
	n.early = append(n.early[max(0, len(n.early)+1-maxEarly):len(n.early):len(n.early)], p)
}

// Start notes that a container of a pod has started that comes after its init containers: the memory manager has taken
// back what those left. It reports whether that is news. Pods that keep returns false for are not remembered any more.
func (n *Node) Start(uid string, keep func(uid string) bool) (news bool) {
	if n.started[uid] {
		return false
	}
	if n.started == nil {
		n.started = map[string]bool{}
	}
	maps.DeleteFunc(n.started, func(uid string, _ bool) bool { return !keep(uid) })
	n.started[uid] = true
	if n.empty == nil {
		return true
	}
	n.entries = slices.Clone(n.entries)
	for i, e := range n.entries {
		if e.Pod.UID == uid {
			n.entries[i].Holdings = n.lasting(uid, e.Holdings)
		}
	}
	n.renew()
	return true
}

// Forget returns the node as one that has not reported. What is known of pods that may still be bound remains.
func (n *Node) Forget() *Node { return &Node{started: n.started, incomplete: n.incomplete} }
