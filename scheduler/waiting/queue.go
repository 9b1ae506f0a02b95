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

// Queue holds the pods that profiles have refused or are trying. core/wake decides which of them are tried again, and
// when. Queue adds a lock and timers, and answers core/wake's questions about nodes from the ledger and the profiles.
//
// A change of a node goes through these steps. The ledger calls Change. When the framework has processed the event of
// the change, queueing hints call Observed; without hints, Observed follows after observedAfter. Then Next returns the
// pods to wake for the node, and Run passes them to kube-scheduler's active queue.
type Queue struct {
	mu     sync.Mutex
	queue  *wake.Queue[classKey, *Class, Woken]
	signal chan struct{} // receives when the queue has work

	snapshot func() *ledger.Snapshot
	later    func(time.Duration, func())
	seed     maphash.Seed
	lapses   bool // some attempts have no reported end; see Unheard
}

const (
	// observedAfter is how long a change of a node waits for the framework to process the event that caused it. A pod
	// that is tried earlier is refused because of the old state, and then backs off.
	observedAfter = 200 * time.Millisecond
	// overdueAfter bounds the time for which a woken pod keeps others from being tried in its place, although its
	// attempt has not begun. Other plugins may keep the pod out of the active queue.
	overdueAfter = 30 * time.Second
	// lapse is the time after which an attempt counts as ended if its end may not be reported. It is long enough:
	// choosing a node takes milliseconds. A pod that is activated while it is still being tried is only tried once
	// more.
	lapse = time.Second
)

// Woken is a pod to be tried again by a profile.
type Woken struct {
	Profile Profile
	Pod     *v1.Pod
}

// compare orders pods by when they are woken: by priority, highest first, then by age, oldest first, then by UID.
func (w Woken) compare(y Woken) int {
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(y.Pod), corev1helpers.PodPriority(w.Pod)),
		w.Pod.CreationTimestamp.Compare(y.Pod.CreationTimestamp.Time), strings.Compare(string(w.Pod.UID), string(y.Pod.UID)))
}

// NewQueue returns an empty queue over the ledger's snapshots. later calls a function after some time, as
// time.AfterFunc does.
func NewQueue(snapshot func() *ledger.Snapshot, later func(time.Duration, func())) *Queue {
	w := &Queue{signal: make(chan struct{}, 1), snapshot: snapshot, seed: maphash.MakeSeed(), later: later}
	w.queue = wake.New[classKey, *Class, Woken](w, Woken.compare)
	return w
}

// locked calls f with the lock held. If the queue has work afterwards, it sends a signal.
func (q *Queue) locked(f func()) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	if q.queue.Pending() {
		select {
		case q.signal <- struct{}{}:
		default:
		}
	}
}

// Unheard makes attempts lapse, because the ends of some are not reported: the scheduler is not tenon-scheduler. Call
// it before the first attempt.
func (q *Queue) Unheard() { q.lapses = true }

// Begin records that an attempt begins. Call it before the snapshot for the attempt is taken, so that no change is
// missed.
func (q *Queue) Begin(p Profile, pod *v1.Pod, a Ask) {
	uid := string(pod.UID)
	q.locked(func() {
		q.queue.Begin(uid, keyOf(p, a), &Class{Profile: p, Ask: a}, Woken{p, pod})
		if q.lapses {
			attempt := q.queue.Attempt(uid)
			q.later(lapse, func() { q.locked(func() { q.queue.Lapse(uid, attempt) }) })
		}
	})
}

// Remove drops a pod that was placed or no longer exists.
func (q *Queue) Remove(uid string) { q.locked(func() { q.queue.Remove(uid) }) }

// Attempt returns the number of a pod's last attempt, or 0 if none is recorded.
func (q *Queue) Attempt(uid string) (n int) {
	q.locked(func() { n = q.queue.Attempt(uid) })
	return n
}

// Failed records that an attempt has ended without a node. others are the nodes on which other plugins refused the
// pod. If others is nil, only other plugins refused the pod: the queue drops it, and those plugins wake it.
func (q *Queue) Failed(p Profile, pod *v1.Pod, attempt int, others *wake.Nodes) {
	q.locked(func() { q.queue.Fail(string(pod.UID), Woken{p, pod}, attempt, others) })
}

// Reconsider retries a pod on every node, also on nodes that have not changed since its attempt. It is for a pod that
// was refused after a node had been chosen for it, so that other nodes may fit.
func (q *Queue) Reconsider(uid string) {
	q.locked(func() {
		if q.queue.Has(uid) {
			q.queue.Reconsider(uid, q.snapshot().Names())
		}
	})
}

// Parted records that the last pod with a key of [place.Demand.Together] has left a node: waiting pods with this key
// may go to any node. The ledger calls it.
func (q *Queue) Parted(key string) {
	q.locked(func() {
		var names []string
		q.queue.Each(func(uid string, c *Class, _ bool) {
			if c.Ask.Demand.Together != key {
				return
			}
			if names == nil {
				names = q.snapshot().Names()
			}
			q.queue.Reconsider(uid, names)
		})
	})
}

// Has reports whether the queue has the pod. Such a pod needs no queueing hint, because the queue wakes it.
func (q *Queue) Has(uid string) (has bool) {
	q.locked(func() { has = q.queue.Has(uid) })
	return has
}

// Change records that a node has changed. The ledger calls it.
func (q *Queue) Change(node string) {
	q.locked(func() {
		if q.queue.Change(node) {
			q.later(observedAfter, func() { q.Observed(node) })
		}
	})
}

// Observed records that the framework has processed the event that changed a node.
func (q *Queue) Observed(node string) { q.locked(func() { q.queue.Observed(node) }) }

// Touch records an event that may make room on a node and does not change the ledger: the node is new, or a pod is no
// longer nominated to it. event identifies the event, because the framework may report the same event many times.
func (q *Queue) Touch(node, event string) { q.locked(func() { q.queue.Touch(node, event) }) }

// Next returns the pods to wake for one changed node, highest priority first. It returns false if no changed node is
// left.
func (q *Queue) Next() (out []Woken, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	woken, more := q.queue.Next()
	for _, x := range woken {
		out = append(out, x.Pod)
		q.later(overdueAfter, func() { q.locked(func() { q.queue.Overdue(x.UID, x.Attempt, x.Node) }) })
	}
	return out, more
}

// Each calls do for every pod of the queue, in no particular order.
func (q *Queue) Each(do func(uid string, c *Class, waits bool)) {
	q.locked(func() { q.queue.Each(do) })
}

// Asked returns how often profiles were asked for the room on a node.
func (q *Queue) Asked() (n int) {
	q.locked(func() { n = q.queue.Asked() })
	return n
}

// rules implements wake.Node for a node in one state.
type rules struct{ here *Here }

// At implements wake.Rules.
func (q *Queue) At(node string) wake.Node[*Class, Woken] {
	return rules{&Here{Name: node, Node: q.snapshot().Node(node), Seed: q.seed}}
}

// Bars implements wake.Node.
func (r rules) Bars(x Woken) bool { return x.Profile.Barred(x.Pod, r.here) }

// Room implements wake.Node.
func (r rules) Room(c *Class, most int) int { return c.Profile.Room(c.Ask, r.here.Node, most) }

// Forces implements wake.Node.
func (r rules) Forces(c *Class, x Woken, room int) bool {
	return x.Profile.MayEvict(x.Pod, c, r.here, room)
}
