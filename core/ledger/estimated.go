package ledger

import (
	"github.com/tenon-numa/tenon/core/estimate"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// This file has everything in the ledger about estimated nodes, which report amounts only (state.Estimated). Package
// estimate computes what the amounts mean. The ledger keeps the pods that the amounts do not contain yet, and counts
// them in addition.

// estimated reports whether the node's last report has amounts only.
func (a *account) estimated() bool { return a.layout != nil && a.layout.Amounts != nil }

// countedUIDs returns the UIDs of the pods that are included in the amounts which an estimated node reports. For an
// exact node it returns none.
func (a *account) countedUIDs() []string {
	if a.estimate == nil {
		return nil
	}
	return a.estimate.Pods()
}

// reportAmounts processes the amounts of an estimated node; before is the layout that they replace. The pods that the
// amounts contain are not assumed any more. It returns an outcome for each of these pods that had only one
// prediction.
func (b *Book) reportAmounts(a *account, before *state.Layout) (out []state.Outcome) {
	if a.estimate == nil {
		a.estimate = &estimate.Node{}
	}
	if before != nil && before.Amounts == nil { // the node was exact until now
		var pods []state.PodID
		for _, e := range before.Entries {
			pods = append(pods, e.Pod)
		}
		a.estimate.Inherit(pods, func(uid string) bool { _, ended := a.ended[uid]; return ended })
	}
	last := b.snap.Load().Node(a.name)
	r := estimate.Report{Empty: a.empty, Amounts: *a.layout.Amounts, Now: a.moment(),
		Settled: last == nil || !last.Unsettled}
	for _, f := range a.assumed[:a.turnedCount()] {
		r.Bound = append(r.Bound, f.forEstimate())
	}
	contained := map[string]bool{}
	for _, landed := range a.estimate.Report(r) {
		contained[landed.UID] = true
		a.unassumed = append(a.unassumed, landed.UID)
		if f := a.find(landed.UID); landed.Foreseen {
			o := state.Outcome{Node: a.name, Pod: f.id, Result: state.Wrong, Predicted: f.holdings(),
				Foreign: f.foreign}
			if landed.Agrees {
				o.Result, o.Seen = state.Confirmed, f.holdings()
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
		mark(&a.ended, uid, true)
	}
	return out
}

// voidPredictions forgets what was predicted for another machine or under other rules: the CPUs of a
// NodeResourceTopology have other numbers than in the layout that it replaces, so its amounts cannot be compared.
func (a *account) voidPredictions() {
	for _, f := range a.assumed {
		f.options, f.earlier, f.past = choices{}, choices{}, estimate.Past{}
	}
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
	return estimate.Pod{ID: f.id, Spec: f.pod, Shape: f.shape, Options: f.options.known, More: f.options.more,
		Unknown: f.uncertain, Bound: f.turned, Admitted: f.acked}
}

// estimateBase sets a node's state to the one that its amounts imply.
func (a *account) estimateBase(base *state.Node) {
	s := a.estimate.Base()
	base.Quality, base.From = state.Estimated, a.layout.From
	base.Entries, base.Usage = s.Entries, s.Usage
	if u := a.estimate.Unplaced(); u != nil {
		base.Basis.Unplaced = unplaced{u}
	}
}

// estimatedStates returns the states in which the node may be without the assumed pods. known is false if there may
// be others.
func (a *account) estimatedStates() (out []*state.Node, known bool) {
	states := a.estimate.States(a.limits.states, len(a.assumed) > 0 && a.assumed[0].turned != 0)
	for _, s := range states.All {
		n := *a.base
		n.Entries, n.Usage, n.Crowded = s.Entries, s.Usage, states.Crowded
		out = append(out, &n)
	}
	return out, states.Sure
}

// keep adds the present options of a pod to the allocations that it may have received, so that they remain possible.
func (a *account) keep(f *assumedPod) { f.past.Keep(f.options.known, f.options.more, a.limits.options) }

// widen records that something was released while a pod was assumed. The pod's present options remain possible. If
// the pod was known to be admitted, its next prediction is possible, too (estimate.Past.Widen).
func (a *account) widen(f *assumedPod) {
	a.keep(f)
	f.past.Widen(f.acked != 0)
}

// inheritPast records the end of the pod me on an estimated node. If it is open whether another pod of its shape was
// admitted before or after me, the other pod may have got what was predicted for me.
func (a *account) inheritPast(me *assumedPod) {
	a.keep(me)
	for _, f := range a.assumed {
		if f.turned != 0 && f.shape == me.shape && !f.admittedBefore(me) && !me.admittedBefore(f) {
			f.past.KeepAll(me.past, a.limits.options)
		}
	}
}

// swapPasts exchanges the remembered possibilities of two pods of one shape that exchange their tickets.
func (a *account) swapPasts(f, g *assumedPod) {
	f.past, g.past = f.past.Map(renamed(f.pod, g.pod)), g.past.Map(renamed(g.pod, f.pod))
	estimate.Swap(&f.past, &g.past)
	if g.acked != 0 {
		a.keep(g)
	}
}

// choosesDevices reports whether the kubelet may choose among devices for the pod. The report of an estimated node
// does not distinguish devices.
func (f *assumedPod) choosesDevices() bool { return !place.Verdict{Holdings: f.holdings()}.Exact() }

// Begun records that a pod has started a container that comes after its init containers. The memory manager has then
// taken back what the init containers left, which the last report of an estimated node may not show. In that case
// Begun changes the node's state, and returns the node's name and true. It returns "" and false if the start was
// known, if the node has no report, or if the node reports which pod holds what.
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

// countedOn returns the account of the estimated node whose amounts contain a pod, locked, or nil. It passes over
// exact nodes that list the pod.
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

// Settle records that the pod's admission has been known for so long that every end of a pod that is received from
// now on came after it. It does nothing if the admission is not known.
func (b *Book) Settle(uid string) {
	a := b.accountOf(uid)
	if a != nil {
		if f := a.find(uid); f != nil && f.acked != 0 {
			f.past.Settle()
		}
	}
	b.close(a)
}

// unplaced implements [state.Unplaced] with what package estimate computes. An estimated node's amounts include its
// unplaced pods, but do not show on which NUMA nodes they are.
type unplaced struct{ *estimate.Unplaced }

// Without returns n without some of its unplaced pods. The result's Others are the other states in which the node may
// then be. The result is unsettled if more states are possible than Others lists.
func (u unplaced) Without(n *state.Node, uids []string) *state.Node {
	var states []estimate.State
	for _, one := range append([]*state.Node{n}, n.Others...) {
		states = append(states, estimate.State{Entries: one.Entries, Usage: one.Usage})
	}
	states, sure := u.Unplaced.Without(states, uids, maxStates)
	var nodes []*state.Node
	for _, s := range states {
		one := *n
		one.Others, one.Unsettled, one.Usage, one.Entries = nil, false, s.Usage, s.Entries
		nodes = append(nodes, &one)
	}
	nodes[0].Others, nodes[0].Unsettled = nodes[1:], n.Unsettled || !sure
	return nodes[0]
}
