package waiting

import (
	"cmp"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/wake"
)

// Queue is the pods that profiles have refused or are trying. core/wake decides which of them are tried again, and
// when; a Queue gives it a lock and timers, and answers for nodes by the ledger and the profiles.
type Queue struct {
	mu     sync.Mutex
	queue  *wake.Queue[classKey, *Class, Woken]
	signal chan struct{} // receives when the queue has something to do

	snapshot func() *ledger.Snapshot
	later    func(time.Duration, func())
	seed     maphash.Seed
}

const (
	// observedAfter is how long a change waits for the framework to learn of the event that brought it. A pod that is
	// tried before that is refused for what is over, and then backs off.
	observedAfter = 200 * time.Millisecond
	// overdueAfter is how long a pod that was woken keeps others from being tried in its stead, should its attempt
	// never begin: other plugins may keep it from the queue.
	overdueAfter = 30 * time.Second
)

// Woken is a pod to be tried again by a profile.
type Woken struct {
	Profile Profile
	Pod     *v1.Pod
}

// compare is the order in which pods are woken: the most important first, and of these the oldest.
func (x Woken) compare(y Woken) int {
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(y.Pod), corev1helpers.PodPriority(x.Pod)),
		x.Pod.CreationTimestamp.Compare(y.Pod.CreationTimestamp.Time), strings.Compare(string(x.Pod.UID), string(y.Pod.UID)))
}

// NewQueue returns an empty queue over the ledger's snapshots. later calls a function after some time, as
// time.AfterFunc does.
func NewQueue(snapshot func() *ledger.Snapshot, later func(time.Duration, func())) *Queue {
	w := &Queue{signal: make(chan struct{}, 1), snapshot: snapshot, seed: maphash.MakeSeed(), later: later}
	w.queue = wake.New[classKey, *Class, Woken](w, Woken.compare)
	return w
}

// locked runs f under the lock, and signals if that gave the queue something to do.
func (w *Queue) locked(f func()) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	if w.queue.Pending() {
		select {
		case w.signal <- struct{}{}:
		default:
		}
	}
}

// Begin notes that a pod is tried, before the snapshot is taken that it is tried on.
func (w *Queue) Begin(p Profile, pod *v1.Pod, a Ask) {
	w.locked(func() {
		w.queue.Begin(string(pod.UID), keyOf(p, a), &Class{Profile: p, Ask: a}, Woken{p, pod})
	})
}

// Remove forgets a pod that has got its place, or is there no more.
func (w *Queue) Remove(uid string) { w.locked(func() { w.queue.Remove(uid) }) }

// Attempt returns the number of a pod's last attempt; 0 where none is known.
func (w *Queue) Attempt(uid string) (n int) {
	w.locked(func() { n = w.queue.Attempt(uid) })
	return n
}

// Failed notes that an attempt has ended without a place. If the plugin is among those that refused the pod, it waits,
// and others are the nodes that other plugins refused it. Otherwise others is nil: whoever refused the pod wakes it.
func (w *Queue) Failed(p Profile, pod *v1.Pod, attempt int, others *wake.Nodes) {
	w.locked(func() { w.queue.Fail(string(pod.UID), Woken{p, pod}, attempt, others) })
}

// Reconsider has a pod tried on every node again, whatever it was tried on: it was refused though a node had been
// chosen.
func (w *Queue) Reconsider(uid string) {
	w.locked(func() {
		if w.queue.Has(uid) {
			w.queue.Reconsider(uid, w.snapshot().Names())
		}
	})
}

// Has reports whether a pod needs no hint of the framework's: it is woken when that helps.
func (w *Queue) Has(uid string) (has bool) {
	w.locked(func() { has = w.queue.Has(uid) })
	return has
}

// Change notes that a node has changed. The book calls it.
func (w *Queue) Change(node string) {
	w.locked(func() {
		if w.queue.Change(node) {
			w.later(observedAfter, func() { w.Observed(node) })
		}
	})
}

// Observed notes that the framework knows of what has changed a node.
func (w *Queue) Observed(node string) { w.locked(func() { w.queue.Observed(node) }) }

// Touch notes an event that may make room on a node though the book does not know of it: the node is new, or promised
// to nobody any more. The framework tells of one event many times.
func (w *Queue) Touch(node, event string) { w.locked(func() { w.queue.Touch(node, event) }) }

// Next returns the pods to be woken for one node, the most important first; more is false when there is no such node.
func (w *Queue) Next() (out []Woken, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken, more := w.queue.Next()
	for _, x := range woken {
		out = append(out, x.Pod)
		w.later(overdueAfter, func() { w.locked(func() { w.queue.Overdue(x.UID, x.Attempt, x.Node) }) })
	}
	return out, more
}

// Each calls do for every pod of the queue, in no order.
func (w *Queue) Each(do func(uid string, c *Class, waits bool)) {
	w.locked(func() { w.queue.Each(do) })
}

// Asked returns how often profiles were asked for the room of a node.
func (w *Queue) Asked() (n int) {
	w.locked(func() { n = w.queue.Asked() })
	return n
}

// rules are the rules by which pods are woken for a node in one state.
type rules struct{ here *Here }

// At implements wake.Rules.
func (w *Queue) At(node string) wake.Node[*Class, Woken] {
	return rules{&Here{Name: node, Node: w.snapshot().Node(node), Seed: w.seed}}
}

// Bars implements wake.Node.
func (r rules) Bars(x Woken) bool { return x.Profile.Barred(x.Pod, r.here) }

// Room implements wake.Node.
func (r rules) Room(c *Class, most int) int { return c.Profile.Room(c.Ask, r.here.Node, most) }

// Forces implements wake.Node.
func (r rules) Forces(c *Class, x Woken, room int) bool {
	return x.Profile.MayEvict(x.Pod, c, r.here, room)
}
