package ledger

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Book is the ledger of a cluster. All methods may be called by any goroutine.
type Book struct {
	snap atomic.Pointer[Snapshot]

	mu    sync.Mutex
	nodes map[string]*account
	// where is the node of every pod on its way, held that of every pod that its node reports.
	where, held map[string]string
	// gone are pods that ended, with their node: a report that still lists one is older than its end.
	gone map[string]string
}

// New returns an empty book.
func New() *Book {
	b := &Book{nodes: map[string]*account{}, where: map[string]string{}, held: map[string]string{}, gone: map[string]string{}}
	b.snap.Store(&Snapshot{index: map[string]int{}})
	return b
}

// Snapshot returns the state of all nodes now.
func (b *Book) Snapshot() *Snapshot { return b.snap.Load() }

// account is what the book keeps of one node.
type account struct {
	name    string
	layout  *Layout // nil: the node has not said anything
	base    *Node   // the layout without pods that ended
	flights []*flight
	changed chan struct{} // closed and renewed at every change
}

// flight is a pod on its way to a node: reserved, perhaps bound, not yet observed there.
type flight struct {
	id  PodID
	pod *place.Pod
	// shape is pod.Shape().
	shape string
	// options are the holdings that the node may give it. The first is the prediction from what is known
	// now; others are older ones: something was released after the pod had its turn, and the node may
	// have admitted it before that.
	options [][]place.Holding
	turned  bool // had its turn: may be bound
	acked   bool // the node is known to have admitted it
}

func (f *flight) holdings() []place.Holding {
	if len(f.options) == 0 {
		return nil
	}
	return f.options[0]
}

// Result says how a prediction came out.
type Result string

const (
	// Confirmed: the node gave what was predicted.
	Confirmed Result = "confirmed"
	// Wrong: the node gave something else.
	Wrong Result = "wrong"
)

// Outcome is one prediction met by an observation.
type Outcome struct {
	Node      string
	Pod       PodID
	Result    Result
	Predicted []place.Holding
	Seen      []place.Holding
}

// Report takes what a node says of itself, and returns how the predictions came out that it settles.
func (b *Book) Report(node string, l Layout) []Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(node)
	b.unhold(a)
	a.layout = &l
	for _, e := range l.Entries {
		b.held[e.Pod.UID] = node
	}
	for uid, at := range b.gone {
		if at == node && !slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Pod.UID == uid }) {
			delete(b.gone, uid)
		}
	}
	out := b.settle(a)
	b.renew(a)
	return out
}

func (b *Book) unhold(a *account) {
	if a.layout == nil {
		return
	}
	for _, e := range a.layout.Entries {
		if b.held[e.Pod.UID] == a.name {
			delete(b.held, e.Pod.UID)
		}
	}
}

// settle ends the flights of pods that the node now reports.
func (b *Book) settle(a *account) []Outcome {
	var out []Outcome
	seen := map[string]Entry{}
	for _, e := range a.layout.Entries {
		seen[e.Pod.UID] = e
	}
	rest := a.flights[:0:0]
	for _, f := range a.flights {
		e, ok := seen[f.id.UID]
		if !ok {
			rest = append(rest, f)
			continue
		}
		delete(b.where, f.id.UID)
		if len(f.options) == 0 {
			continue
		}
		o := Outcome{Node: a.name, Pod: f.id, Result: Wrong, Predicted: f.holdings(), Seen: e.Holdings}
		if a.foresaw(f, e.Holdings) {
			o.Result = Confirmed
		}
		out = append(out, o)
	}
	a.flights = rest
	return out
}

// foresaw reports whether the holdings were predicted for the pod, or for a pod of the same shape that
// had its turn together with it.
func (a *account) foresaw(f *flight, seen []place.Holding) bool {
	for _, g := range a.flights {
		if g != f && (g.shape != f.shape || !g.turned) {
			continue
		}
		for _, o := range g.options {
			if matches(o, seen) {
				return true
			}
		}
	}
	return false
}

// matches compares container by container; of another pod of the same shape the names do not count.
// Memory of an init container may be gone: the memory manager takes it back when the next container
// starts.
func matches(predicted, seen []place.Holding) bool {
	predicted, seen = trimmed(predicted), trimmed(seen)
	for _, p := range predicted {
		switch {
		case len(seen) > 0 && p.Matches(seen[0]):
			seen = seen[1:]
		case p.Kind != place.Init:
			return false
		default:
			if p.Memory = nil; p.Empty() {
				continue
			}
			if len(seen) == 0 || !p.Matches(seen[0]) {
				return false
			}
			seen = seen[1:]
		}
	}
	return len(seen) == 0
}

// trimmed drops holdings that take nothing: reports differ in whether they list them.
func trimmed(in []place.Holding) []place.Holding {
	return slices.DeleteFunc(slices.Clone(in), func(h place.Holding) bool { return h.Empty() })
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
	a.layout, a.base = nil, nil
	for uid, at := range b.gone {
		if at == node {
			delete(b.gone, uid)
		}
	}
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
func (b *Book) Reserve(node string, id PodID, p *place.Pod) (v place.Verdict, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.nodes[node]
	if a == nil || a.base == nil {
		return place.Verdict{}, false
	}
	if at, on := b.where[id.UID]; on && at == node {
		for _, f := range a.flights {
			if f.id.UID == id.UID {
				return place.Verdict{Holdings: f.holdings()}, true
			}
		}
	}
	b.cancel(id.UID)
	v = place.Place(b.snap.Load().Node(node).Usage, p)
	if len(v.Holdings) > 0 {
		b.board(a, &flight{id: id, pod: p, shape: p.Shape(), options: [][]place.Holding{v.Holdings}})
	}
	return v, true
}

// Assume books a pod that somebody bound to the node: another scheduler, or this one before a restart.
// It is on its way from then on; where the node has no layout yet, the prediction waits for one.
func (b *Book) Assume(node string, id PodID, p *place.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, on := b.where[id.UID]; on && at == node {
		for _, f := range b.nodes[node].flights {
			f.turned = f.turned || f.id.UID == id.UID
		}
		return
	}
	if _, ended := b.gone[id.UID]; ended {
		return
	}
	b.cancel(id.UID)
	if b.held[id.UID] == node {
		return
	}
	b.board(b.account(node), &flight{id: id, pod: p, shape: p.Shape(), turned: true})
}

// board puts a flight behind those that had their turn before it: a pod that is bound already comes
// before pods that still wait.
func (b *Book) board(a *account, f *flight) {
	at := len(a.flights)
	for f.turned && at > 0 && !a.flights[at-1].turned {
		at--
	}
	a.flights = slices.Insert(slices.Clone(a.flights), at, f)
	b.where[f.id.UID] = a.name
	b.renew(a)
}

// Admitted notes that a node is known to have admitted a pod, though it has not reported it yet.
func (b *Book) Admitted(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.nodes[b.where[uid]]; a != nil {
		for _, f := range a.flights {
			if f.id.UID == uid && !f.acked {
				f.acked = true
				a.wake()
			}
		}
	}
}

// Unreserve ends the booking of a pod that was not bound after all; it may be booked again.
func (b *Book) Unreserve(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel(uid)
}

// Release ends a pod for good: it is deleted, finished, or was refused.
func (b *Book) Release(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, flying := b.where[uid]; flying && b.nodes[at].layout != nil {
		b.gone[uid] = at
	}
	b.cancel(uid)
	if at, on := b.held[uid]; on {
		b.gone[uid] = at
		b.renew(b.nodes[at])
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
	a.flights = slices.DeleteFunc(slices.Clone(a.flights), func(f *flight) bool { return f.id.UID == uid })
	b.renew(a)
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
	u := a.base.Usage
	for _, f := range a.flights {
		if f.id.UID != uid {
			u = u.Hold(f.holdings()...)
			continue
		}
		if a.blocked(f) {
			return v, a.changed, nil
		}
		if v = place.Place(u, f.pod); !v.Fits() {
			b.cancel(uid)
			return v, nil, nil
		}
		f.options, f.turned = [][]place.Holding{v.Holdings}, true
		b.renew(a)
		return v, nil, nil
	}
	return v, nil, fmt.Errorf("pod %s is not reserved on node %s", uid, a.name)
}

// blocked reports whether a pod must wait for one before it.
func (a *account) blocked(me *flight) bool {
	for _, f := range a.flights {
		if f == me {
			return false
		}
		if !f.turned || (!f.known() && (f.shape != me.shape || !f.exact())) {
			return true
		}
	}
	return false
}

// known reports whether what the pod holds is certain enough to build on: it was admitted, there is one
// prediction, and nothing in it is left to chance. Otherwise only the node's report tells.
func (f *flight) known() bool { return f.acked && len(f.options) <= 1 && f.exact() }

func (f *flight) exact() bool { return place.Verdict{Holdings: f.holdings()}.Exact() }

func (b *Book) account(node string) *account {
	a := b.nodes[node]
	if a == nil {
		a = &account{name: node, changed: make(chan struct{})}
		b.nodes[node] = a
	}
	return a
}

func (a *account) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
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
	base := &Node{Name: a.name, Machine: l.Machine, Rules: l.Rules}
	for _, e := range l.Entries {
		if _, ended := b.gone[e.Pod.UID]; !ended {
			e.Source = Observed
			base.Entries = append(base.Entries, e)
		}
	}
	base.Usage = place.NewUsage(l.Machine, l.Rules).Hold(holdings(base.Entries)...)
	if len(base.Entries) == len(l.Entries) {
		base.Usage = base.Usage.WithGroups(l.Groups)
	}
	a.base = base
	b.snap.Store(b.snap.Load().set(a.predict()))
}

// predict makes the predictions of all pods on their way, in order, and returns the state with them.
func (a *account) predict() *Node {
	n := *a.base
	n.Entries = slices.Clone(n.Entries)
	for _, f := range a.flights {
		// What an admitted pod holds does not change with what comes after, unless it was another pod of
		// its shape that got it.
		if !f.acked || !free(n.Usage, f.holdings()) {
			switch v := place.Place(n.Usage, f.pod); {
			case v.Fits():
				f.expect(v.Holdings)
			case !f.turned:
				f.options = nil // others moved into its place; its turn will tell
			}
		}
		if len(f.holdings()) == 0 {
			continue // nothing of its own, or refused: its order counts, and nothing else
		}
		n.Entries = append(n.Entries, Entry{Pod: f.id, Source: Predicted, Holdings: f.holdings()})
		n.Usage = n.Usage.Hold(f.holdings()...)
	}
	return &n
}

// free reports whether holdings were predicted, and nobody else holds the CPUs and devices in them.
func free(u *place.Usage, hs []place.Holding) bool {
	for _, h := range hs {
		if !h.CPUs.SubsetOf(u.FreeCPUs()) {
			return false
		}
		for _, d := range h.Devices {
			ids := u.FreeDevices(d.Resource)
			for _, id := range d.IDs {
				if !slices.ContainsFunc(ids, func(x topo.Device) bool { return x.ID == id }) {
					return false
				}
			}
		}
	}
	return len(hs) > 0
}

// maxOptions bounds what is remembered of a pod that the node does not report while others come and go.
const maxOptions = 8

// expect takes a new prediction: instead of the old one while the pod waits for its turn, before it
// afterwards.
func (f *flight) expect(h []place.Holding) {
	if !f.turned {
		f.options = nil
	}
	f.options = slices.DeleteFunc(slices.Clone(f.options), func(o []place.Holding) bool {
		return slices.EqualFunc(o, h, func(a, b place.Holding) bool { return a.Matches(b) })
	})
	f.options = slices.Insert(f.options, 0, h)
	f.options = f.options[:min(len(f.options), maxOptions)]
}

// Booked reports whether the pod is on its way to the node.
func (b *Book) Booked(node, uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, on := b.where[uid]
	return on && at == node
}
