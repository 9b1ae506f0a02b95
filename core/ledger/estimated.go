package ledger

import (
	"github.com/tenon-numa/tenon/core/estimate"
	"github.com/tenon-numa/tenon/core/place"
)

// This file has everything in the ledger about estimated nodes, which report amounts only (Coarse). Package estimate
// computes what the amounts mean. The ledger keeps the pods that the amounts do not contain yet, and counts them in
// addition.

// Amounts is the report of a coarse node about its holdings.
type Amounts = estimate.Amounts

// estimated reports whether the node's last report has amounts only.
func (a *account) estimated() bool { return a.layout != nil && a.layout.Amounts != nil }

// counted returns the UIDs of the pods that the node's amounts contain, none on exact nodes.
func (a *account) counted() []string {
	if a.estimate == nil {
		return nil
	}
	return a.estimate.Pods()
}

// reportAmounts processes the amounts of an estimated node: assumed pods that they contain are not assumed any more.
func (b *Book) reportAmounts(a *account, before *Layout) (out []Outcome) {
	if a.estimate == nil {
		a.estimate = &estimate.Node{}
	}
	if before != nil && before.Amounts == nil {
		var pods []estimate.PodID
		for _, e := range before.Entries {
			pods = append(pods, estimate.PodID(e.Pod))
		}
		a.estimate.Inherit(pods, func(uid string) bool { _, ended := a.ended[uid]; return ended })
	}
	last := b.snap.Load().Node(a.name)
	r := estimate.Report{Empty: a.empty, Amounts: *a.layout.Amounts, Now: a.moment(),
		Settled: last == nil || !last.Unsettled}
	for _, f := range a.assumed[:a.turned()] {
		r.Bound = append(r.Bound, f.forEstimate())
	}
	contained := map[string]bool{}
	for _, l := range a.estimate.Report(r) {
		contained[l.UID] = true
		a.settled = append(a.settled, l.UID)
		if f := a.find(l.UID); l.Foreseen {
			o := Outcome{Node: a.name, Pod: f.id, Result: Wrong, Predicted: f.holdings(), Foreign: f.foreign}
			if l.Agrees {
				o.Result, o.Seen = Confirmed, f.holdings()
			}
			out = append(out, o)
		}
	}
	rest := a.assumed[:0:0]
	for _, f := range a.assumed {
		if !contained[f.id.UID] {
			rest = append(rest, f)
		}
	}
	a.assumed = rest
	clear(a.ended)
	for _, uid := range a.estimate.EndedPods() {
		a.ended[uid] = true
	}
	return out
}

// stopEstimating records that the node now reports which pod holds what.
func (a *account) stopEstimating() {
	if a.estimate == nil {
		return
	}
	a.estimate = nil
	for _, f := range a.assumed {
		f.past = estimate.Past{}
	}
}

// forgetAmounts drops the reports of an estimated node.
func (a *account) forgetAmounts() {
	if a.estimate != nil {
		a.estimate = a.estimate.Forget()
	}
}

// forEstimate returns the description of an assumed pod for package estimate.
func (f *assumedPod) forEstimate() estimate.Pod {
	return estimate.Pod{ID: estimate.PodID(f.id), Spec: f.pod, Shape: f.shape, Options: f.options.of, More: f.options.more,
		Unknown: f.uncertain, Bound: f.turned, Admitted: f.acked}
}

// estimateBase sets a node's state to the one that its amounts imply.
func (a *account) estimateBase(base *Node) {
	s := a.estimate.Base()
	base.Quality, base.From = Coarse, a.layout.From
	base.Entries, base.Usage, base.unplaced = entriesOf(s), s.Usage, a.estimate.Unplaced()
}

// entriesOf returns the entries of a state.
func entriesOf(s estimate.State) (out []Entry) {
	for _, e := range s.Entries {
		out = append(out, Entry{Pod: PodID(e.Pod), Source: Counted, Holdings: e.Holdings})
	}
	return out
}

// estimatedStates returns the states in which the node may be without the assumed pods. known is false if there may be
// others.
func (a *account) estimatedStates() (out []*Node, known bool) {
	states := a.estimate.States(a.limits.states, len(a.assumed) > 0 && a.assumed[0].turned != 0)
	for _, s := range states.All {
		n := *a.base
		n.Entries, n.Usage, n.Crowded = entriesOf(s), s.Usage, states.Crowded
		out = append(out, &n)
	}
	return out, states.Sure
}

// keep records the options that a pod has now, so that they remain possible.
func (a *account) keep(f *assumedPod) { f.past.Keep(f.options.of, f.options.more, a.limits.options) }

// widen is keep for a pod that was assumed when something was released.
func (a *account) widen(f *assumedPod) {
	a.keep(f)
	f.past.Widen(f.acked != 0)
}

// exchanged records the end of a pod that may have had what was predicted for others of its shape.
func (a *account) exchanged(me *assumedPod) {
	a.keep(me)
	for _, f := range a.assumed {
		if f.turned != 0 && f.shape == me.shape && !f.before(me) && !me.before(f) {
			f.past.KeepAll(me.past, a.limits.options)
		}
	}
}

// swapPasts exchanges the remembered possibilities of two pods of one shape that exchange their slots.
func (a *account) swapPasts(f, g *assumedPod) {
	f.past, g.past = f.past.Map(renamed(f.pod, g.pod)), g.past.Map(renamed(g.pod, f.pod))
	estimate.Swap(&f.past, &g.past)
	if g.acked != 0 {
		a.keep(g)
	}
}

// choosesDevices reports whether the kubelet may choose among devices for the pod. The report of an estimated node does
// not distinguish devices.
func (f *assumedPod) choosesDevices() bool { return !place.Verdict{Holdings: f.holdings()}.Exact() }

// Begun records that a container of a pod has started that comes after its init containers: the memory manager has
// taken back what those left. changed is set if that frees memory, and the node's reports do not show it.
func (b *Book) Begun(uid string) (node string, changed bool) {
	a := b.accountOf(uid)
	if a == nil {
		a = b.countedOn(uid)
	}
	defer b.close(a)
	if a == nil || a.reportsPods() {
		return "", false
	}
	if a.estimate == nil {
		a.estimate = &estimate.Node{}
	}
	known := func(uid string) bool { return b.holds(a.name, uid) || b.Booked(a.name, uid) }
	if !a.estimate.Start(uid, known) || a.layout == nil {
		return "", false
	}
	if f := a.find(uid); f != nil {
		f.past = f.past.Map(estimate.Started)
	}
	b.renew(a)
	return a.name, true
}

// countedOn returns the account of the estimated node whose amounts contain a pod, locked, or nil. Claims of exact
// nodes do not count here.
func (b *Book) countedOn(uid string) *account {
	for _, node := range b.holders(uid) {
		a := b.open(node)
		if a != nil && a.estimate != nil && a.estimate.Counts(uid) {
			return a
		}
		b.close(a)
	}
	return nil
}

// Settle records that a pod has been known to be admitted for long: every end from now on comes after its admission.
func (b *Book) Settle(uid string) {
	a := b.accountOf(uid)
	if a != nil {
		if f := a.find(uid); f != nil && f.acked != 0 {
			f.past.Settle()
		}
	}
	b.close(a)
}

// Unplaced reports whether the amounts of an estimated node contain the pod, but its NUMA nodes are unknown.
func (n *Node) Unplaced(uid string) bool { return n.unplaced.Has(uid) }

// withoutUnplaced returns the node without some of its unplaced pods, in every state in which it may then be. It is
// unsettled if more states are possible than are listed.
func (n *Node) withoutUnplaced(uids []string) *Node {
	if n.unplaced == nil {
		return n
	}
	var states []estimate.State
	source := map[string]Source{}
	for _, state := range append([]*Node{n}, n.Others...) {
		s := estimate.State{Usage: state.Usage}
		for _, e := range state.Entries {
			source[e.Pod.UID] = e.Source
			s.Entries = append(s.Entries, estimate.Entry{Pod: estimate.PodID(e.Pod), Holdings: e.Holdings})
		}
		states = append(states, s)
	}
	states, sure := n.unplaced.Without(states, uids, maxStates)
	var nodes []*Node
	for _, s := range states {
		state := *n
		state.Others, state.Unsettled, state.Usage, state.Entries = nil, false, s.Usage, entriesOf(s)
		for i := range state.Entries {
			state.Entries[i].Source = source[state.Entries[i].Pod.UID]
		}
		nodes = append(nodes, &state)
	}
	nodes[0].Others, nodes[0].Unsettled = nodes[1:], n.Unsettled || !sure
	return nodes[0]
}

// crowds reports whether the node is too crowded for a pod: what one container of the pod gets affects the next.
func (n *Node) crowds(p *place.Pod) bool { return n.Crowded && len(p.Containers) > 1 }

// unenforced reports whether a violated demand would have no effect: the node reports amounts only, and its kubelet
// would admit the pod. On such a node no prediction satisfies the demand.
func (n *Node) unenforced(p *place.Pod, d place.Demand) bool {
	return n.Quality == Coarse && d.Binds() && !n.Rules.Enforces(p, d)
}
