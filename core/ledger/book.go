package ledger

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tenon-numa/tenon/core/estimate"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Book is the ledger of a cluster. All methods may be called by any goroutine.
type Book struct {
	snap atomic.Pointer[Snapshot]

	// mu guards the maps; see access.go.
	mu    sync.Mutex
	nodes map[string]*account
	// grounds has the data that equal nodes share.
	grounds grounds
	// assumedOn has the node of every assumed pod. It comes from the scheduler or the API server, never from a
	// report.
	assumedOn map[string]string
	// held has the nodes that account for each pod: their reports list the pod, or their amounts contain it. An entry
	// affects the state of its own node only.
	held   claims
	limits limits
	// statuses has Basis.Statuses of every node, by the name of the node. The inner maps do not change.
	statuses map[string]map[string]place.Statuses
	// onChange is called for every node whose state changes; see OnChange.
	onChange func(node string)
	// partners has, by key of [place.Demand.Together] and node, how many pods have the key; see relations.go.
	partners map[string]map[string]int
	// onParting is called for every key whose last pod has left a node; see OnParting.
	onParting func(key string)
}

// New returns an empty book.
func New() *Book {
	b := &Book{nodes: map[string]*account{}, assumedOn: map[string]string{}, held: newClaims(),
		limits: limits{maxStates, maxSteps, maxOptions}, onChange: func(string) {},
		statuses: map[string]map[string]place.Statuses{}, partners: map[string]map[string]int{},
		onParting: func(string) {}}
	b.snap.Store(newSnapshot())
	return b
}

// Snapshot returns the state of all nodes now.
func (b *Book) Snapshot() *Snapshot { return b.snap.Load() }

// account is what the book stores about one node. The node's state follows from base and assumed; the other fields
// remember reports and events.
type account struct {
	mu      *sync.Mutex // guards all fields below
	removed bool        // the account is no longer in the book
	name    string
	limits  limits

	layout *state.Layout // the last report; nil if there is none
	base   *state.Node   // the last report without pods that have ended since
	empty  *place.Usage  // the node without any pod
	silent bool          // see Node.Silent
	// assumed has the pods that had their turn, in the order of their turns, and then the pods that wait for their
	// turn.
	assumed []*assumedPod
	// ended has the UIDs of ended pods that a report may still list; the value is true if the last report lists the
	// pod. endedEarly has the UIDs whose value is false, oldest first.
	ended      map[string]bool
	endedEarly []string
	// doubts has the UIDs of pods that may have ended although the last report lists them.
	doubts map[string]bool
	// overdue is the part of doubts for which a report should have come long ago. unlisted has the admitted pods that
	// no report lists in time; see unlisted.go.
	overdue  map[string]bool
	unlisted unlisted
	// refused is Node.Refused.
	refused map[string]place.RefusalReason
	// estimate is the inference about a node that reports amounts only; see estimated.go. It is nil on exact nodes.
	estimate *estimate.Node

	// relations is Basis.Relations, and shared is set if a published state has the same map. leaving are the pods of it
	// that have ended.
	relations map[string]state.Relations
	shared    bool
	leaving   map[string]bool

	promised []state.Promised // see Book.Promise

	now       int           // counts moments: turns, admissions
	news      int           // see Node.News
	changed   chan struct{} // closed at the next change; nil if no pod waits for it
	unassumed []string      // UIDs of pods that are not assumed any more; see Book.updateHolders
	// excess has the pods that are not followed because there are too many. flooded is the number of pods that had
	// had their turn when predicting took too much work; 0 if it does not take too much now. See flood.go.
	excess  map[string]bool
	flooded int
	effort  int // cost of all searches so far, for tests; see maxEffort
	// predicted is the cost of the placements of the last prediction.
	predicted int
}

// moment returns a moment later than all previous ones.
func (a *account) moment() int {
	a.now++
	return a.now
}

// wake closes the channel that nextChange has returned, so that waiting pods ask again.
func (a *account) wake() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// nextChange returns a channel that is closed at the next change.
func (a *account) nextChange() <-chan struct{} {
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	return a.changed
}

// find returns the assumed pod with this UID, or nil.
func (a *account) find(uid string) *assumedPod {
	for _, f := range a.assumed {
		if f.id.UID == uid {
			return f
		}
	}
	return nil
}

// Report stores a node's report, and returns the outcomes of the predictions that it confirms or refutes.
func (b *Book) Report(node string, l state.Layout) []state.Outcome {
	empty := b.grounds.usage(l.Machine, l.Rules)
	a := b.ensure(node)
	defer b.close(a)
	before, counted := a.layout, a.countedUIDs()
	renewed := a.empty == nil || a.empty.Machine != l.Machine || !a.empty.Rules.Equal(l.Rules)
	a.news++
	if l.Amounts == nil || !l.Amounts.Again {
		a.refused = nil
	}
	l.Entries = asObserved(l.Entries)
	a.layout, a.empty, a.silent, a.flooded = &l, empty, false, 0
	for _, uid := range a.dropIdle() {
		b.unrelate(a, uid)
	}
	var out []state.Outcome
	if l.Amounts != nil {
		a.pruneUnlisted(nil, true)
		if renewed {
			a.voidPredictions()
		}
		out = b.reportAmounts(a, before)
	} else {
		a.stopEstimating()
		listed := map[string]bool{}
		for _, e := range l.Entries {
			listed[e.Pod.UID] = true
			a.dropExcess(e.Pod.UID)
		}
		a.pruneUnlisted(listed, renewed)
		a.unlisted.ways = possibleWays(a.unlisted.ways, l.Entries)
		// ended: pods are gone without an event. renewed: the machine or the rules are other ones than before.
		ended := a.dropMissing(listed)
		out = a.compareReport(ended || renewed || slices.ContainsFunc(a.assumed, func(f *assumedPod) bool {
			return f.acked != 0 && !listed[f.id.UID]
		}))
		for _, f := range a.assumed {
			if ended && f.acked != 0 && f.decision == nil { // admitted, but not in this report
				a.markUncertain(f)
			}
			if renewed { // what was predicted for another machine is void
				f.earlier = choices{}
			}
			if before == nil { // what ended on the node while it had no report was not noticed
				f.uncertain = f.uncertain || f.turned != 0 && f.decision == nil
			}
			f.uncertain = f.uncertain || f.turned != 0 && a.drawsAlone(f)
		}
	}
	b.updateHolders(a, before, counted)
	b.forgetRelations(a)
	b.renew(a)
	return out
}

// idle reports whether the empty node would assign nothing to the pod, because its managers are off or do not serve
// the pod. No report will ever list such a pod. Without a report of the node, the answer is false.
func (a *account) idle(p *place.Pod) bool {
	if a.empty == nil {
		return false
	}
	v := place.Place(a.empty, p)
	return v.Fits() && len(v.Holdings) == 0
}

// dropIdle drops the assumed pods to which the node assigns nothing, and returns their UIDs; see idle. If that costs
// more than maxEffort, it leaves the remaining pods for the next call.
func (a *account) dropIdle() (dropped []string) {
	effort := 0
	a.assumed = slices.DeleteFunc(slices.Clone(a.assumed), func(f *assumedPod) bool {
		if f.onto == a.empty {
			return false // it was found not to be idle before
		}
		if effort += f.cost; effort > maxEffort {
			return false
		}
		idle := a.idle(f.pod)
		if f.onto = a.empty; idle {
			dropped = append(dropped, f.id.UID)
		}
		return idle
	})
	a.unassumed = append(a.unassumed, dropped...)
	return dropped
}

// Forget drops a node's report. The pods that are assumed there stay assumed, and its unlisted pods are assumed
// again.
func (b *Book) Forget(node string) {
	a := b.open(node)
	if a == nil {
		return
	}
	defer b.close(a)
	before, counted := a.layout, a.countedUIDs()
	a.layout, a.base, a.empty, a.refused, a.silent, a.flooded = nil, nil, nil, nil, false, 0
	a.forgetAmounts()
	a.pruneUnlisted(nil, true)
	b.updateHolders(a, before, counted)
	clear(a.ended)
	clear(a.doubts)
	clear(a.overdue)
	a.endedEarly = nil
	b.forgetRelations(a)
	b.withdraw(node)
	a.wake()
}

// OnChange sets a callback for every node whose state has changed, or that the book no longer has. The callback runs
// after the snapshot has the change. OnChange must be called before the first change. The callback must return
// quickly, and must call no method of the book but Snapshot.
func (b *Book) OnChange(do func(node string)) { b.onChange = do }

// Assume records that a pod is bound to the node. If the pod is not booked yet, because another scheduler bound it or
// this one did before a restart, Assume books it. If the node has no layout yet, the prediction is made when it has
// one. Assume does nothing for a pod that the node accounts for, or that has ended there.
func (b *Book) Assume(node string, id state.PodID, p *place.Pod) { b.assume(node, id, p, false) }

// Recover is Assume for a pod that was bound before this book was begun. Until its node reports it, what it got is
// uncertain: it may have been admitted beside pods that have ended since.
func (b *Book) Recover(node string, id state.PodID, p *place.Pod) { b.assume(node, id, p, true) }

// assume is Recover if lost is set, and otherwise Assume.
func (b *Book) assume(node string, id state.PodID, p *place.Pod, lost bool) {
	for {
		a := b.ensure(node)
		again := b.assumeOn(a, id, p, lost)
		b.close(a)
		if !again {
			return
		}
		b.cancelElsewhere(node, id.UID)
	}
}

// assumeOn is assume on an account. If the pod is booked on another node, it does nothing and returns true: the
// caller cancels that booking and calls again.
func (b *Book) assumeOn(a *account, id state.PodID, p *place.Pod, lost bool) (again bool) {
	if a.excess[id.UID] || a.isUnlisted(id.UID) {
		return false
	}
	if f := a.find(id.UID); f != nil {
		switch {
		case f.turned == 0: // another scheduler bound it
			f.turned, f.after = a.moment(), 0
			a.sort()
			b.renew(a)
		case !f.bound:
			f.bound = true
			if slices.ContainsFunc(a.assumed, func(g *assumedPod) bool { return g.turned == 0 && f.precedes(g) }) {
				a.wake()
			}
		}
		return false
	}
	if _, ended := a.ended[id.UID]; ended {
		return false
	}
	if _, on := b.assumedNode(id.UID); on {
		return true
	}
	if b.holds(a.name, id.UID) {
		return false
	}
	f := newAssumed(id, p)
	if f.cost <= maxEffort && a.idle(p) {
		return false
	}
	f.onto, f.turned, f.foreign, f.uncertain = a.empty, a.moment(), true, lost || a.drawsAlone(f)
	return !b.addAssumed(a, f)
}

// cancelElsewhere ends the booking of a pod if it is on another node than this one.
func (b *Book) cancelElsewhere(node, uid string) {
	for {
		at, on := b.assumedNode(uid)
		if !on || at == node {
			return
		}
		if a := b.accountOf(uid); a != nil {
			if a.name != node {
				b.cancel(a, uid)
			}
			b.close(a)
		}
	}
}

// addAssumed adds an assumed pod. If the pod is assumed on another node, it adds nothing and returns false.
func (b *Book) addAssumed(a *account, f *assumedPod) (ok bool) {
	if !b.markAssumed(f.id.UID, a.name) {
		return false
	}
	_, ended := a.ended[f.id.UID]
	delete(a.ended, f.id.UID) // the scheduler framework may have reported the pod's end when binding failed
	if !a.room(f) {
		mark(&a.excess, f.id.UID, true)
		if len(a.excess) > 1 {
			return true // the node is already marked as having too many
		}
	} else {
		a.assumed = append(a.assumed[:len(a.assumed):len(a.assumed)], f)
		a.sort()
	}
	if ended || !b.extend(a, f) {
		b.renew(a)
	}
	return true
}

// extend publishes the state of a node with one more pod that waits for its turn, and returns true. The state equals
// the one that renew would publish, since all other pods get what they got before, but costs only one placement.
// Other pods that wait need not ask again: none of them waits for a pod behind it. extend does nothing and returns
// false where it needs renew: for pods that had their turn, on estimated nodes, and at the bounds of flood.go.
func (b *Book) extend(a *account, f *assumedPod) bool {
	before := b.snap.Load().Node(a.name)
	if f.turned != 0 || before == nil || a.estimated() || a.overrun() ||
		a.predicted+(1+len(before.Others))*f.cost > maxEffort {
		return false
	}
	a.predicted += (1 + len(before.Others)) * f.cost
	with := func(n *state.Node, hs []place.Holding) *state.Node {
		out := *n
		out.Basis.Relations = a.shareRelations()
		if len(hs) > 0 {
			out.Entries = append(n.Entries[:len(n.Entries):len(n.Entries)],
				state.Entry{Pod: f.id, Source: state.Predicted, Holdings: hs})
			out.Usage = n.Usage.Hold(hs...)
		}
		return &out
	}
	next := with(before, f.holdings())
	next.Others = nil
	for _, n := range before.Others {
		next.Others = append(next.Others, with(n, f.place(n.Usage).Holdings))
	}
	next.Basis.Queue = a.queue()
	b.publish(next)
	return true
}

// sort puts the pods that had their turn, by turn, before those that wait for it.
func (a *account) sort() {
	a.assumed = slices.Clone(a.assumed)
	slices.SortStableFunc(a.assumed, func(f, g *assumedPod) int {
		switch {
		case f.turned == 0 && g.turned == 0:
			return 0
		case f.turned == 0:
			return 1
		case g.turned == 0:
			return -1
		}
		return f.turned - g.turned
	})
}

// Admitted records that the pod's status shows its admission, while no report lists the pod yet. Admitted returns
// false, and changes nothing, if that was known before, if the pod is not assumed, or if it had no turn.
func (b *Book) Admitted(uid string) (news bool) {
	a := b.accountOf(uid)
	if a == nil {
		return false
	}
	defer b.close(a)
	f := a.find(uid)
	if f == nil || f.turned == 0 || f.acked != 0 {
		return false
	}
	a.moveAdmitted(f)
	f.acked = a.moment()
	a.news++
	if a.estimated() {
		a.keep(f)
	}
	b.renew(a)
	return true
}

// renew computes the state of a node again, publishes it, and makes waiting pods ask again. If the node has no
// report, it only makes waiting pods ask again.
func (b *Book) renew(a *account) {
	defer a.wake()
	l := a.layout
	if l == nil {
		return
	}
	base := &state.Node{Name: a.name, Machine: l.Machine, Rules: l.Rules, Refused: a.refused, Silent: a.silent,
		News: a.news, Inexact: l.Inexact, Promised: a.promised, Unlisted: a.unlistedIDs(), Gone: a.goneIDs(),
		Basis: state.Basis{Empty: a.empty, Relations: a.shareRelations()}}
	if a.estimated() {
		a.estimateBase(base)
	} else {
		a.observe(base, a.unlisted.likeliest())
	}
	a.base = base
	b.publish(a.predict())
}

// asObserved returns entries with the source Observed. It copies none that have it: the base of the node's layout, its
// account and its published state share them, since they are most of what is stored about a node.
func asObserved(entries []state.Entry) []state.Entry {
	if slices.ContainsFunc(entries, func(e state.Entry) bool { return e.Source != state.Observed }) {
		entries = slices.Clone(entries)
		for i := range entries {
			entries[i].Source = state.Observed
		}
	}
	return slices.Clip(entries)
}

// observe sets the entries, memory groups and usage of base by the node's last report. It leaves out pods that have
// ended since, and adds way: the entries that unlisted pods may have.
func (a *account) observe(base *state.Node, way []state.Entry) {
	departed := func(e state.Entry) bool { _, ended := a.ended[e.Pod.UID]; return ended }
	var gone []state.Entry
	base.Entries = a.layout.Entries
	if slices.ContainsFunc(base.Entries, departed) {
		base.Entries = slices.DeleteFunc(slices.Clone(base.Entries), departed)
		gone = slices.DeleteFunc(slices.Clone(a.layout.Entries), func(e state.Entry) bool { return !departed(e) })
	}
	base.Entries = append(slices.Clip(base.Entries), way...)
	base.Basis.Groups = state.GroupsWithout(a.layout.Groups, gone)
	base.Usage = a.empty.Hold(state.Holdings(base.Entries)...).WithGroups(base.Basis.Groups)
}

// HadTurn reports whether a pod is assumed and had its turn. Its binding may then have been sent.
func (b *Book) HadTurn(uid string) bool {
	a := b.accountOf(uid)
	defer b.close(a)
	if a == nil {
		return false
	}
	f := a.find(uid)
	return f != nil && f.turned != 0
}

// Booked reports whether the pod is assumed on the node.
func (b *Book) Booked(node, uid string) bool {
	at, on := b.assumedNode(uid)
	return on && at == node
}
