package sched

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/cluster/amounts"
	"github.com/tenon-numa/tenon/cluster/preempt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/wake"
)

// waiting are the pods that this plugin has refused or is trying, in a scheduler of Tenon's own. core/wake decides
// which of them are tried again, and when; waiting gives it a lock and timers, and answers for nodes by the ledger.
// Methods on a nil *waiting do nothing.
type waiting struct {
	mu     sync.Mutex
	queue  *wake.Queue[classKey, *podClass, wokenPod]
	signal chan struct{} // receives when the queue has something to do

	snapshot func() *ledger.Snapshot
	later    func(time.Duration, func())
	seed     maphash.Seed // of sums of UIDs
}

const (
	// observedAfter is how long a change waits for the framework to learn of the event that brought it. A pod that is
	// tried before that is refused for what is over, and then backs off.
	observedAfter = 200 * time.Millisecond
	// overdueAfter is how long a pod that was woken keeps others from being tried in its stead, should its attempt
	// never begin: other plugins may keep it from the queue.
	overdueAfter = 30 * time.Second
)

// classKey is what decides how a node answers a pod.
type classKey struct {
	plugin *Plugin
	pod    string
	demand place.Demand
}

// podClass is the pods of one key.
type podClass struct {
	plugin *Plugin
	state  *state // of any of them
	// openings are where pods of the class were woken to evict others.
	openings preempt.Openings
}

// wokenPod is a pod to be tried again by the profile of a plugin.
type wokenPod struct {
	plugin *Plugin
	pod    *v1.Pod
}

// compare is the order in which pods are woken: the most important first, and of these the oldest.
func (x wokenPod) compare(y wokenPod) int {
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(y.pod), corev1helpers.PodPriority(x.pod)),
		x.pod.CreationTimestamp.Compare(y.pod.CreationTimestamp.Time), strings.Compare(string(x.pod.UID), string(y.pod.UID)))
}

func newWaiting(snapshot func() *ledger.Snapshot) *waiting {
	w := &waiting{signal: make(chan struct{}, 1), snapshot: snapshot, seed: maphash.MakeSeed(),
		later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }}
	w.queue = wake.New[classKey, *podClass, wokenPod](w, wokenPod.compare)
	return w
}

// locked runs f under the lock, and signals if that gave the queue something to do.
func (w *waiting) locked(f func()) {
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

// begin notes that a pod is tried, before the snapshot is taken that it is tried on.
func (w *waiting) begin(p *Plugin, pod *v1.Pod, s *state) {
	w.locked(func() {
		class := &podClass{plugin: p, state: &state{pod: s.pod, key: s.key, demand: s.demand}}
		w.queue.Begin(s.uid, classKey{p, s.key, s.demand}, class, wokenPod{p, pod})
	})
}

// remove forgets a pod that has got its place, or is there no more.
func (w *waiting) remove(uid string) { w.locked(func() { w.queue.Remove(uid) }) }

// attempt returns the number of a pod's last attempt; 0 where none is known.
func (w *waiting) attempt(uid string) (n int) {
	w.locked(func() { n = w.queue.Attempt(uid) })
	return n
}

// failed notes that an attempt has ended without a place. If the plugin is among those that refused the pod, it waits,
// and others are the nodes that other plugins refused it. Otherwise others is nil: whoever refused the pod wakes it.
func (w *waiting) failed(p *Plugin, pod *v1.Pod, attempt int, others *wake.Nodes) {
	w.locked(func() { w.queue.Fail(string(pod.UID), wokenPod{p, pod}, attempt, others) })
}

// reconsider has a pod tried on every node again, whatever it was tried on: it was refused though a node had been
// chosen.
func (w *waiting) reconsider(uid string) {
	w.locked(func() {
		if w.queue.Has(uid) {
			w.queue.Reconsider(uid, w.snapshot().Names())
		}
	})
}

// has reports whether a pod needs no hint of the framework's: it is woken when that helps.
func (w *waiting) has(uid string) (has bool) {
	w.locked(func() { has = w.queue.Has(uid) })
	return has
}

// change notes that a node has changed. The book calls it.
func (w *waiting) change(node string) {
	w.locked(func() {
		if w.queue.Change(node) {
			w.later(observedAfter, func() { w.observed(node) })
		}
	})
}

// observed notes that the framework knows of what has changed a node.
func (w *waiting) observed(node string) { w.locked(func() { w.queue.Observed(node) }) }

// touch notes an event that may make room on a node though the book does not know of it: the node is new, or promised
// to nobody any more. The framework tells of one event many times.
func (w *waiting) touch(node, event string) { w.locked(func() { w.queue.Touch(node, event) }) }

// next returns the pods to be woken for one node, the most important first; more is false when there is no such node.
func (w *waiting) next() (out []wokenPod, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken, more := w.queue.Next()
	for _, x := range woken {
		out = append(out, x.Pod)
		w.later(overdueAfter, func() { w.locked(func() { w.queue.Overdue(x.UID, x.Attempt, x.Node) }) })
	}
	return out, more
}

// nodeRules are the rules by which pods are woken for a node in one state.
type nodeRules struct {
	*waiting
	name string
	node *ledger.Node // nil if the ledger does not know it
	// residents returns the pods of the node.
	residents func(*amounts.Amounts) *preempt.Residents
}

// At implements wake.Rules.
func (w *waiting) At(node string) wake.Node[*podClass, wokenPod] {
	var here *preempt.Residents
	return nodeRules{w, node, w.snapshot().Node(node), func(a *amounts.Amounts) *preempt.Residents {
		if here == nil {
			here = preempt.NewResidents(a.On(node))
		}
		return here
	}}
}

// Bars implements wake.Node: a pod whose victims are being evicted is not tried, nor one whose wait on the node timed
// out as long as nothing is learned of the node.
func (r nodeRules) Bars(x wokenPod) bool {
	return x.plugin.evicting().Evicts(x.pod) ||
		r.node != nil && x.plugin.backoff.has(string(x.pod.UID), r.name, r.node.News)
}

// Room implements wake.Node.
func (r nodeRules) Room(c *podClass, most int) int { return c.plugin.room(c.state, r.node, most) }

// Forces implements wake.Node: a pod is woken if it waits for news of the node, or may evict others there.
func (r nodeRules) Forces(c *podClass, x wokenPod, room int) bool {
	p := x.plugin
	if p.evicting().Awaits(x.pod, r.name) {
		return true
	}
	return room == 0 && p.preemption != nil && !p.args.KeepVictims && p.knows(r.node) && preempt.Preempts(x.pod) &&
		c.openings.Opens(x.pod, c.state.pod, c.state.demand, r.node, r.residents(p.amounts), r.seed)
}

// accepts reports whether a node takes a pod, n being what is known of it or nil.
func (p *Plugin) accepts(s *state, n *ledger.Node) bool {
	switch {
	case n == nil:
		return p.letsUnknown(s)
	case !p.knows(n) || n.Silent && p.args.SilentNodes == config.Refuse:
		return false
	}
	return s.takes(n) && p.guards(s, n) == nil
}

// room returns how many pods that ask alike a node takes, at most most.
func (p *Plugin) room(s *state, n *ledger.Node, most int) int {
	if !p.accepts(s, n) {
		return 0
	}
	if n == nil {
		return most
	}
	for k := 1; k < most; k++ {
		n, _ = n.With(ledger.PodID{UID: fmt.Sprintf("room %d", k)}, s.pod)
		if !n.Place(s.pod, s.demand).Fits() {
			return k
		}
	}
	return most
}
