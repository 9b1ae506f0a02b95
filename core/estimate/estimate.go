// Package estimate infers what pods hold on a node that reports amounts only: how much of each NUMA node is held, but
// not by which pod. A NodeResourceTopology is such a report.
//
// A [Node] processes reports ([Node.Report]) and the ends of pods ([Node.End]), and answers two questions. Which pods
// do the amounts contain? The caller counts other pods in addition. In which states may the node be ([Node.States])?
// A pod surely fits if it fits in each of them, beside the pods that the caller counts in addition. The CPU ids and
// device ids of all holdings are made up: only their number per NUMA node has a meaning.
//
// The estimate is conservative. If it is uncertain whether a pod is in the amounts, the pod counts twice. If it is
// uncertain what a pod gave back, one of the states has nothing given back. If there are more states than are
// followed, the answer says that it is incomplete. docs/design/estimates.md explains the rules.
//
// The package has no clock, no lock and no order of admission: package ledger, its caller, calls the methods of one
// Node one after the other, and numbers the moments. The package rejects no report: amounts that no set of pods
// explains are held by an entry without a UID.
package estimate

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Pod is a pod that is bound to the node, and was not known to be in the amounts so far.
type Pod struct {
	ID    state.PodID
	Spec  *place.Pod
	Shape string // Spec.Shape()
	// Options are the predicted holdings, each of them possible; none if there was no prediction. More: the pod may
	// also hold something else.
	Options [][]place.Holding
	More    bool
	// Unknown: the pod's holdings are unknown, even if there was a prediction.
	Unknown bool
	// Bound is the moment since which the pod may be bound, and Admitted the moment since which it is known to be
	// admitted; 0 is never.
	Bound, Admitted int
}

// first returns the likeliest holdings, or nil.
func (p *Pod) first() []place.Holding {
	if len(p.Options) == 0 {
		return nil
	}
	return p.Options[0]
}

// counted is a pod that the amounts contain. spec is nil if the pod's requests are unknown.
type counted struct {
	id   state.PodID
	spec *place.Pod
	// absent: the amounts may already lack the pod. An exporter may see an end before the API server reports it.
	absent bool
}

// Node has what is inferred about one node. The zero Node has not reported.
type Node struct {
	frame
	amounts state.Amounts
	// entries are the pods whose part of the amounts is known, and one entry without a UID for the rest of the
	// amounts. base is the node without the pods that ended.
	entries []state.Entry
	base    State
	// counted are the pods that the amounts contain, by UID. ended has the UIDs of pods that have ended and that the
	// amounts may still contain.
	counted map[string]counted
	ended   map[string]bool
	// moved are ended pods whose part of the amounts is unknown.
	moved []counted
	// lost are pods that ended since the last report. The amounts of that report may lack them already, so what they
	// held is not given back.
	lost []counted
	// early are pods that ended before a report contained them. A late report may contain them.
	early []Pod
	// started has the UIDs of pods whose init containers have ended.
	started map[string]bool
	// last are the amounts of the last new report; nil if there was none.
	last *explained
	// withheld are the amounts of ended pods that are not given back, because the reported amounts may contain them.
	withheld map[string]quantities
	// incomplete: what pods keep from their init containers may be in more places than States returns.
	incomplete bool
	// doubled: the amounts may contain a pod that is also counted separately, so more may be free than is counted.
	doubled bool
}

// explained are the amounts of a report.
type explained struct {
	held quantities
	at   int // the moment of the report
	// from are the amounts of the pods that the report certainly contains. With some of the pods that it may contain,
	// they add up to held. from is nil if no choice of pods adds up to held.
	from quantities
	// unreplaced are the amounts of pods that ended after this report, as far as no other pod is known to have taken
	// their place.
	unreplaced quantities
}

// Report is a node's report, together with what the caller adds to it.
type Report struct {
	// Empty is the machine with its rules, without pods.
	Empty   *place.Usage
	Amounts state.Amounts
	// Bound are the pods that the caller counts in addition to the last amounts, in any order.
	Bound []Pod
	// Settled: the predictions for the bound pods covered all possible states of the node.
	Settled bool
	// Now is later than the moments of all pods.
	Now int
}

// Landed is a pod that the amounts contain from now on.
type Landed struct {
	UID string
	// Foreseen: there was only one prediction for the pod. Agrees: the amounts have room for the predictions of all
	// pods.
	Foreseen, Agrees bool
}

// Inherit records the pods that the node reported when it still reported which pod holds what. The next amounts
// contain them, at unknown places. ended reports whether a pod has ended since.
func (n *Node) Inherit(pods []state.PodID, ended func(uid string) bool) {
	n.counted, n.ended = map[string]counted{}, map[string]bool{}
	for _, id := range pods {
		n.counted[id.UID] = counted{id: id}
		if ended(id.UID) {
			n.ended[id.UID] = true
		}
	}
}

// Report processes the amounts of the node, and returns which of the bound pods they contain. First, count decides
// which pods are in the amounts. Then Report makes two lists of entries: old has the present entries of pods that may
// still be in the amounts, and fresh also has the new pods whose prediction is certain. Last, assign chooses the
// longer of these lists for which the amounts have room, and adds an entry for the rest of the amounts.
func (n *Node) Report(r Report) []Landed {
	if n.counted == nil {
		n.counted, n.ended = map[string]counted{}, map[string]bool{}
	}
	foreseen := !n.incomplete && r.Settled
	n.frame, n.amounts = n.frame.next(r.Empty, r.Amounts.Whole), r.Amounts
	x := &reading{Node: n, bound: r.Bound, now: r.Now, held: quantitiesOf(r.Amounts.Held)}
	x.old = slices.DeleteFunc(slices.Clone(n.entries), func(e state.Entry) bool { return e.Pod.UID == "" })
	x.count()
	n.moved = slices.DeleteFunc(slices.Clone(n.moved), func(c counted) bool { return !x.in[c.id.UID] })
	old := slices.DeleteFunc(x.old, func(e state.Entry) bool { return n.ended[e.Pod.UID] && !x.in[e.Pod.UID] })
	landed := slices.DeleteFunc(slices.Clone(r.Bound), func(p Pod) bool { return !x.in[p.ID.UID] })
	late := x.takeLate()
	fresh, u := old, n.empty.Hold(state.Holdings(old)...)
	for _, p := range slices.Concat(landed, late) {
		if foreseen && n.certain(&p) {
			hs := n.lasting(p.ID.UID, free(u, &p))
			u = u.Hold(hs...)
			entry := state.Entry{Pod: p.ID, Source: state.Counted, Holdings: hs}
			fresh = append(fresh[:len(fresh):len(fresh)], entry)
		}
	}
	agrees := x.assign(old, fresh)
	for _, p := range late {
		if !slices.ContainsFunc(n.entries, func(e state.Entry) bool { return e.Pod.UID == p.ID.UID }) {
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

// tidy removes ended pods from n.counted, and from n.ended those that the amounts no longer contain.
func (n *Node) tidy() {
	for uid := range n.ended {
		delete(n.counted, uid)
		if !slices.ContainsFunc(n.entries, func(e state.Entry) bool { return e.Pod.UID == uid }) &&
			!slices.ContainsFunc(n.moved, func(c counted) bool { return c.id.UID == uid }) {
			delete(n.ended, uid)
		}
	}
}

// renew computes the node's base again.
func (n *Node) renew() {
	n.base.Entries = slices.DeleteFunc(slices.Clone(n.entries), func(e state.Entry) bool { return n.ended[e.Pod.UID] })
	n.base.Usage = n.empty.Hold(state.Holdings(n.base.Entries)...)
}

// Base returns the state that the amounts imply, without the ended pods whose part of the amounts is known.
func (n *Node) Base() State { return n.base }

// Counts reports whether the amounts of the last report are known to contain a pod. For a pod that ends, it stays
// true until the next report.
func (n *Node) Counts(uid string) bool {
	_, ok := n.counted[uid]
	return ok
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

// Ended reports whether a pod has ended and the amounts of the last report may still contain it.
func (n *Node) Ended(uid string) bool { return n.ended[uid] }

// EndedPods returns the UIDs of the pods for which Ended is true, in ascending order.
func (n *Node) EndedPods() []string { return slices.Sorted(maps.Keys(n.ended)) }

// End records the end of a pod that the amounts contain. It may be called again for the same pod.
func (n *Node) End(uid string) {
	if n.ended[uid] || n.empty == nil {
		return
	}
	if c, ok := n.counted[uid]; ok && n.base.entry(uid) < 0 {
		if c.absent {
			n.lost = append(n.lost[:len(n.lost):len(n.lost)], c)
		} else {
			n.moved = append(n.moved[:len(n.moved):len(n.moved)], c)
		}
	}
	n.ended[uid] = true
	n.renew()
}

// maxEarly bounds the remembered pods that ended before a report contained them.
const maxEarly = 32

// EndEarly records that a bound pod ended before the amounts contained it. Only the last maxEarly such pods are
// remembered.
func (n *Node) EndEarly(p Pod) {
	n.early = append(n.early[max(0, len(n.early)+1-maxEarly):len(n.early):len(n.early)], p)
}

// Start records that a pod has started a container that comes after its init containers. The memory manager has then
// taken back what the init containers left. Start returns false if that was known. It also forgets the started pods
// that keep returns false for.
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

// Forget returns the node as if it had not reported, with what is known about pods that may still be bound.
func (n *Node) Forget() *Node { return &Node{started: n.started, incomplete: n.incomplete} }
