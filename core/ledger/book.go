package ledger

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tenon-numa/tenon/core/place"
)

// Book is the ledger of a cluster. All methods may be called by any goroutine.
type Book struct {
	snap atomic.Pointer[Snapshot]

	mu    sync.Mutex
	nodes map[string]*account
	// where is the node of every pod on its way, held that of every pod that its node accounts for.
	where, held map[string]string
}

// New returns an empty book.
func New() *Book {
	b := &Book{nodes: map[string]*account{}, where: map[string]string{}, held: map[string]string{}}
	b.snap.Store(&Snapshot{index: map[string]int{}})
	return b
}

// Snapshot returns the state of all nodes now.
func (b *Book) Snapshot() *Snapshot { return b.snap.Load() }

// account is what the book keeps of one node.
type account struct {
	name   string
	layout *Layout // nil: the node has not said anything
	base   *Node   // the layout without pods that ended
	// flights are those that had their turn, in that order, then those that wait.
	flights []*flight
	// gone are the UIDs of pods that ended while the node accounts, or may still account, for them; true
	// for those that it has reported.
	gone map[string]bool
	// counted are pods that are in the amounts of a coarse node without an entry of their own.
	counted map[string]bool
	// totals are the amounts of the last coarse report that was understood.
	totals  *totals
	doubts  map[string]bool // pods that may have left though the node reports them
	buried  []string        // the pods in gone that no report has had, the oldest first
	refused map[string]place.Error
	now     int           // counts moments: turns, admissions
	sure    bool          // all states in which the node may be are known
	changed chan struct{} // closed and renewed at every change
}

func (b *Book) account(node string) *account {
	a := b.nodes[node]
	if a == nil {
		a = &account{name: node, gone: map[string]bool{}, doubts: map[string]bool{}, changed: make(chan struct{})}
		b.nodes[node] = a
	}
	return a
}

// moment returns a moment later than all before.
func (a *account) moment() int {
	a.now++
	return a.now
}

func (a *account) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *account) flight(uid string) *flight {
	for _, f := range a.flights {
		if f.id.UID == uid {
			return f
		}
	}
	return nil
}

// Report takes what a node says of itself, and returns how the predictions came out that it settles.
func (b *Book) Report(node string, l Layout) []Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(node)
	before := a.layout
	b.unhold(a)
	a.layout, a.refused = &l, nil
	if l.Amounts != nil {
		out := b.count(a, before)
		b.renew(a)
		return out
	}
	a.counted, a.totals = nil, nil
	listed := map[string]bool{}
	for _, e := range l.Entries {
		b.held[e.Pod.UID], listed[e.Pod.UID] = node, true
	}
	a.depart(listed)
	out := b.settle(a)
	b.renew(a)
	return out
}

func (b *Book) unhold(a *account) {
	drop := func(uid string) {
		if b.held[uid] == a.name {
			delete(b.held, uid)
		}
	}
	for uid := range a.counted {
		drop(uid)
	}
	if a.layout != nil {
		for _, e := range a.layout.Entries {
			drop(e.Pod.UID)
		}
	}
}

// Forget drops what a node said of itself. Pods on their way to it stay on their way.
func (b *Book) Forget(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.nodes[node]
	if !ok {
		return
	}
	b.unhold(a)
	a.layout, a.base, a.counted, a.totals, a.refused = nil, nil, nil, nil, nil
	clear(a.gone)
	clear(a.doubts)
	a.buried = nil
	if len(a.flights) == 0 {
		delete(b.nodes, node)
	}
	b.snap.Store(b.snap.Load().drop(node))
	a.wake()
}

// Reserve computes the verdict for a pod once more and, where it fits, books what it will hold on the
// node; a pod that will hold nothing there needs no booking and gets none. A pod that is booked already
// keeps its booking if the node is the same and loses it otherwise. A node without a layout books
// nothing for anybody; ok is then false.
func (b *Book) Reserve(node string, id PodID, p *place.Pod, d place.Demand) (v place.Verdict, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.nodes[node]
	if a == nil || a.base == nil {
		return place.Verdict{}, false
	}
	if b.where[id.UID] == node {
		if f := a.flight(id.UID); f != nil {
			return place.Verdict{Holdings: f.holdings()}, true
		}
	}
	b.cancel(id.UID)
	v = b.snap.Load().Node(node).Place(p, d)
	if len(v.Holdings) > 0 {
		b.board(a, &flight{id: id, pod: p, shape: p.Shape(), options: [][]place.Holding{v.Holdings}})
	}
	return v, true
}

// Assume books a pod that was bound to the node: by another scheduler, or by this one before a restart,
// or just now. It is on its way from then on; where the node has no layout yet, the prediction waits for
// one.
func (b *Book) Assume(node string, id PodID, p *place.Pod) { b.assume(node, id, p, false) }

// Recover is Assume for a pod that was bound before this book was begun. Where its node has not reported
// it yet, nobody can say what it got: it may have been admitted beside pods that have ended since.
func (b *Book) Recover(node string, id PodID, p *place.Pod) { b.assume(node, id, p, true) }

func (b *Book) assume(node string, id PodID, p *place.Pod, lost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, on := b.where[id.UID]; on && at == node {
		if a := b.nodes[node]; a.flight(id.UID).turned == 0 {
			a.flight(id.UID).turned = a.moment()
			a.sort()
			b.renew(a)
		}
		return
	}
	if a := b.nodes[node]; a != nil {
		if _, ended := a.gone[id.UID]; ended {
			return
		}
	}
	b.cancel(id.UID)
	if b.held[id.UID] == node {
		return
	}
	a := b.account(node)
	b.board(a, &flight{id: id, pod: p, shape: p.Shape(), turned: a.moment(), foreign: true, lost: lost})
}

// board takes a flight on.
func (b *Book) board(a *account, f *flight) {
	a.flights = append(a.flights[:len(a.flights):len(a.flights)], f)
	a.sort()
	b.where[f.id.UID] = a.name
	delete(a.gone, f.id.UID) // the framework may have told an end of it when it could not be bound
	b.renew(a)
}

// sort puts flights that had their turn before those that wait.
func (a *account) sort() {
	a.flights = slices.Clone(a.flights)
	slices.SortStableFunc(a.flights, func(f, g *flight) int {
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

// Admitted notes that a node is known to have admitted a pod, though it has not reported it yet. It
// reports whether that is news.
func (b *Book) Admitted(uid string) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.nodes[b.where[uid]]
	if a == nil {
		return false
	}
	f := a.flight(uid)
	if f.turned == 0 || f.acked != 0 {
		return false
	}
	f.acked = a.moment()
	f.keep()
	b.renew(a)
	return true
}

// Unreserve ends the booking of a pod that was not bound after all; it may be booked again.
func (b *Book) Unreserve(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel(uid)
}

// Release ends a pod for good: it has finished, or never ran.
func (b *Book) Release(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.nodes[b.where[uid]]; a != nil && a.layout != nil {
		a.bury(uid)
	}
	b.cancel(uid)
	at, on := b.held[uid]
	if !on {
		return
	}
	a := b.nodes[at]
	a.gone[uid] = true
	delete(a.doubts, uid)
	a.released(uid)
	b.renew(a)
}

// Vanish notes that the object of a pod is gone though nothing said that the pod ended: it was deleted
// by force, and its node may run it still. What the node reported of it holds until it reports again;
// a node that is coarse, or without a layout, cannot tell, and the pod counts as ended.
func (b *Book) Vanish(uid string) {
	b.mu.Lock()
	at, on := b.held[uid]
	if !on {
		at = b.where[uid]
	}
	a := b.nodes[at]
	if a == nil || a.layout == nil || a.layout.Amounts != nil {
		b.mu.Unlock()
		b.Release(uid)
		return
	}
	defer b.mu.Unlock()
	if f := a.flight(uid); f != nil {
		f.vanished = true
		return
	}
	a.doubts[uid] = true
	a.released(uid)
	b.renew(a)
}

// Doubt takes which pods there are, when the book is begun. One that a node reports and that is not there
// has ended, or was deleted by force; the node is then in either of two states until it reports again.
func (b *Book) Doubt(there func(uid string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, node := range b.held {
		if !there(uid) {
			b.nodes[node].doubts[uid] = true
		}
	}
	for _, a := range b.nodes {
		if len(a.doubts) > 0 {
			b.renew(a)
		}
	}
}

// Refuse ends a pod that its node has refused. If a verdict said that it would fit, its shape is kept
// away from the node until the node reports again, and ok is set.
func (b *Book) Refuse(uid string, why place.Error) (o Outcome, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.nodes[b.where[uid]]
	if a == nil {
		return o, false
	}
	f := a.flight(uid)
	o = Outcome{Node: a.name, Pod: f.id, Result: Rejected, Predicted: f.holdings(), Error: why, Foreign: f.foreign}
	ok = len(f.options) > 0 && a.layout != nil
	if ok {
		next := map[string]place.Error{f.shape: why}
		for shape, e := range a.refused {
			next[shape] = e
		}
		a.refused = next
	}
	b.cancel(uid)
	return o, ok
}

// Pardon lets shapes that a node has refused try again, though the node has not reported.
func (b *Book) Pardon(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.nodes[node]; a != nil && len(a.refused) > 0 {
		a.refused = nil
		b.renew(a)
	}
}

// cancel ends the flight of a pod.
func (b *Book) cancel(uid string) {
	at, on := b.where[uid]
	if !on {
		return
	}
	delete(b.where, uid)
	a := b.nodes[at]
	me := a.flight(uid)
	a.flights = slices.DeleteFunc(slices.Clone(a.flights), func(f *flight) bool { return f == me })
	if me.turned != 0 {
		a.released(uid)
		me.keep()
		for _, f := range a.flights {
			if f.turned != 0 && f.shape == me.shape && !f.before(me) && !me.before(f) {
				f.kept = merge(f.kept, me.kept) // they may have changed places
			}
		}
	}
	b.renew(a)
}

// released notes that something was given back: pods on their way may have been admitted before that or
// after it.
func (a *account) released(uid string) {
	for _, f := range a.flights {
		if f.turned != 0 {
			f.keep()
			f.causes = append(f.causes[:len(f.causes):len(f.causes)], uid)
			f.open = f.acked != 0 && !f.firm
		}
	}
}

// maxBuried bounds the pods that are remembered though no report ever had them.
const maxBuried = 32

// bury remembers a pod that ended before it was reported: a report that is late may have it.
func (a *account) bury(uid string) {
	if _, there := a.gone[uid]; there {
		return
	}
	a.gone[uid] = false
	a.buried = append(a.buried[:len(a.buried):len(a.buried)], uid)
	if len(a.buried) > maxBuried {
		delete(a.gone, a.buried[0])
		a.buried = a.buried[1:]
	}
}

// depart takes which pods a report lists. A pod that an earlier one had, and this one has not, ended
// before it: who ended and is in no report yet was admitted after that, unless it is known to be admitted
// and the report just lacks it.
func (a *account) depart(listed map[string]bool) {
	for uid, reported := range a.gone {
		if !reported || listed[uid] {
			continue
		}
		delete(a.gone, uid)
		for _, f := range a.flights {
			f.settled(uid)
		}
	}
	maps.DeleteFunc(a.doubts, func(uid string, _ bool) bool { return !listed[uid] })
	if a.base == nil || !slices.ContainsFunc(a.base.Entries, func(e Entry) bool { return !listed[e.Pod.UID] }) {
		return
	}
	for _, f := range a.flights {
		f.open = f.open || f.acked != 0
	}
}

// Settle notes that a pod was known to be admitted long ago: what ends from now on ended after that.
func (b *Book) Settle(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.nodes[b.where[uid]]; a != nil {
		if f := a.flight(uid); f.acked != 0 {
			f.firm = true
		}
	}
}

// Turn says whether a reserved pod may be bound now. If not, wait is closed when that may have changed.
// If so, the prediction was made once more on what is known now; a pod that no longer fits loses its
// booking and gets the refusal. A pod that is not booked is an error.
func (b *Book) Turn(uid string) (v place.Verdict, wait <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.nodes[b.where[uid]]
	if a == nil || a.base == nil {
		return v, nil, fmt.Errorf("pod %s is not reserved on any node", uid)
	}
	f := a.flight(uid)
	if f.turned == 0 {
		if a.blocked(f) {
			return v, a.changed, nil
		}
		options, refusal, settled := a.offers(f)
		if len(options) > 0 && (!settled || !refusal.Fits()) {
			return v, a.changed, nil // it fits if things are as they may be: the node's report will tell
		}
		if len(options) == 0 {
			b.cancel(uid)
			return refusal, nil, nil
		}
		f.options, f.turned = options, a.moment()
		a.sort()
		b.renew(a)
	}
	return place.Verdict{Holdings: f.holdings()}, nil, nil
}

// offers returns what a waiting flight may get, in all states of the node. refusal does not fit if it is
// refused in one of them; settled is false where there may be more states.
func (a *account) offers(f *flight) (options [][]place.Holding, refusal place.Verdict, settled bool) {
	worlds, settled := a.worlds()
	for _, w := range worlds {
		v := place.Place(w.usage, f.pod)
		if !v.Fits() {
			refusal = v
			continue
		}
		options = merge(options, [][]place.Holding{w.blur(v.Holdings)})
	}
	return options, refusal, settled
}

// blocked reports whether a pod must wait for one before it.
func (a *account) blocked(me *flight) bool {
	for _, f := range a.flights {
		switch {
		case f == me:
			return false
		case f.turned == 0:
			return true
		case f.acked != 0:
			if f.vague(a.base.Quality) {
				return true
			}
		case f.shape != me.shape || !f.exact():
			return true
		}
	}
	return false
}

// renew computes the state of a node again and publishes it.
func (b *Book) renew(a *account) {
	defer a.wake()
	if a.layout == nil {
		if len(a.flights) == 0 {
			delete(b.nodes, a.name)
		}
		return
	}
	l := a.layout
	base := &Node{Name: a.name, Machine: l.Machine, Rules: l.Rules, Refused: a.refused}
	if l.Amounts != nil {
		base.Quality = Coarse
	}
	var left []Entry
	for _, e := range l.Entries {
		if _, ended := a.gone[e.Pod.UID]; ended {
			left = append(left, e)
			continue
		}
		if l.Amounts == nil {
			e.Source = Observed
		}
		base.Entries = append(base.Entries, e)
	}
	base.groups = untouched(l.Groups, left)
	base.Usage = place.NewUsage(l.Machine, l.Rules).Hold(holdings(base.Entries)...).WithGroups(base.groups)
	a.base = base
	b.snap.Store(b.snap.Load().set(a.predict()))
}

// Doubted reports whether it is not known if a pod is still on the node that reports it.
func (b *Book) Doubted(uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.nodes[b.held[uid]]
	return a != nil && a.doubts[uid]
}

// Booked reports whether the pod is on its way to the node.
func (b *Book) Booked(node, uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, on := b.where[uid]
	return on && at == node
}
