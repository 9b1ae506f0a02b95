// Package wake decides which waiting pods are tried again when a node changes, and in which order.
//
// Pods that all nodes answer alike form an equivalence class. When a node has changed, the queue computes once for each
// class how many of its pods the node has room for. It wakes that many, in the order of the queue; the others keep
// waiting. When the attempt of a woken pod ends, the queue asks again for its class and that node. If the room was not
// taken, because something else excludes the pod there or because it went elsewhere, the queue wakes the next pod.
//
// Invariant: assume that only the [Rules] excluded a pod from a node, and that the node then changed and now has
// room. The pod then waits only while as many pods of its class are being tried for the node as the node has room
// for. A change that makes no room wakes no pod, and no pod is woken twice for one change of a node.
//
// The package has no clock and no lock: a caller reports when delays are over, and calls one method at a time. Events
// of pods that the queue does not have are ignored.
package wake

import "slices"

const (
	// MaxRoom bounds the pods of a class that are tried for one node at a time. Each pod that gets a place changes the
	// node, and so makes the queue wake the next.
	MaxRoom = 16
	// maxShared bounds the sets of nodes that are stored for one class.
	maxShared = 64
)

// Rules gives answers about nodes.
type Rules[C, P any] interface {
	// At returns the rules of a node in its present state.
	At(node string) Node[C, P]
}

// Node gives answers about one node in one state. C represents a class, P a pod.
type Node[C, P any] interface {
	// Bars reports whether the pod must not be woken for this node now, even if there is room.
	Bars(pod P) bool
	// Room returns for how many pods of a class the node has room, at most limit.
	Room(class C, limit int) int
	// Forces reports whether a pod has to be woken although the node has no more room than for the pods of its class
	// that are being tried. room is the result of Room.
	Forces(class C, pod P, room int) bool
}

// Queue has the pods that wait or are being tried. K identifies classes.
type Queue[K comparable, C, P any] struct {
	rules   Rules[C, P]
	order   func(a, b P) int
	pods    map[string]*pod[K, C, P] // by UID
	classes map[K]*class[K, C, P]
	// clock counts changes of nodes and attempts; changed is the clock at the last change of each node.
	clock   int
	changed map[string]int
	// held has nodes with a change that has no effect until Observed is called. due has, by node, the classes for
	// which Next has to ask for room; a nil class stands for all.
	held map[string]bool
	due  map[string]map[*class[K, C, P]]bool
	// touched is the last event of each node that Touch recorded.
	touched map[string]string
	asked   int // calls of Room
}

// class is a set of pods that all nodes answer alike.
type class[K comparable, C, P any] struct {
	key     K
	value   C
	members int
	waiting []*pod[K, C, P] // in the order of the queue
	trying  map[string]int  // by node: pods that were woken for it and whose attempt has not ended
	shared  map[uint64]*Nodes
}

// pod is one pod that waits or is tried.
type pod[K comparable, C, P any] struct {
	uid   string
	value P
	class *class[K, C, P]
	// attempt identifies the last attempt. The pod is woken only for changes after the clock in tried. That is when
	// the attempt began, unless Reconsider or Overdue has set it.
	attempt, tried int
	waits          bool
	trying         bool   // the pod's attempt has begun, and its end is not reported yet
	node           string // the node that the pod was woken for, or ""
	others         *Nodes // nodes that something other than the rules excludes for the pod
}

// New returns an empty queue. order is the order in which pods of a class are woken; it must be total.
func New[K comparable, C, P any](rules Rules[C, P], order func(a, b P) int) *Queue[K, C, P] {
	return &Queue[K, C, P]{rules: rules, order: order, pods: map[string]*pod[K, C, P]{}, classes: map[K]*class[K, C, P]{},
		changed: map[string]int{}, held: map[string]bool{}, due: map[string]map[*class[K, C, P]]bool{},
		touched: map[string]string{}}
}

// Begin records that an attempt of a pod begins. The caller calls it before it reads the state of nodes for the
// attempt.
func (q *Queue[K, C, P]) Begin(uid string, key K, value C, p P) {
	x := q.pods[uid]
	if x != nil && x.class.key != key {
		q.drop(x)
		x = nil
	}
	if x == nil {
		c := q.classes[key]
		if c == nil {
			c = &class[K, C, P]{key: key, value: value, trying: map[string]int{}, shared: map[uint64]*Nodes{}}
			q.classes[key] = c
		}
		c.members++
		x = &pod[K, C, P]{uid: uid, class: c}
		q.pods[uid] = x
	}
	q.unqueue(x)
	x.value = p
	q.clock++
	x.attempt, x.tried, x.trying = q.clock, q.clock, true
}

// Attempt returns the number of a pod's last attempt, or 0.
func (q *Queue[K, C, P]) Attempt(uid string) int {
	if x := q.pods[uid]; x != nil {
		return x.attempt
	}
	return 0
}

// Fail records that an attempt ended without a place. others are the nodes that something other than the rules excludes
// for the pod. If the rules excluded no node, others is nil, and the queue removes the pod.
func (q *Queue[K, C, P]) Fail(uid string, p P, attempt int, others *Nodes) {
	x := q.pods[uid]
	if x == nil || x.attempt != attempt {
		return // the pod was removed, or a new attempt has begun
	}
	if others == nil {
		q.drop(x)
		return
	}
	q.endWakeUp(x)
	q.unqueue(x)
	x.trying = false
	x.value, x.others = p, x.class.share(others)
	q.wait(x)
	for node, at := range q.changed {
		if at > x.tried {
			q.markDue(node, x.class)
		}
	}
}

// Lapse ends an attempt whose end was not reported. The pod then waits as if nothing but the rules had excluded it from
// any node; see Fail. Lapse does nothing if the end was reported, or a new attempt has begun.
func (q *Queue[K, C, P]) Lapse(uid string, attempt int) {
	if x := q.pods[uid]; x != nil && x.trying {
		q.Fail(uid, x.value, attempt, &Nodes{})
	}
}

// Remove removes a pod that has a place or no longer exists.
func (q *Queue[K, C, P]) Remove(uid string) {
	if x := q.pods[uid]; x != nil {
		q.drop(x)
	}
}

// Reconsider makes the queue try a pod again on each of the given nodes, even if they have not changed: now if it
// waits, or once its attempt has failed.
func (q *Queue[K, C, P]) Reconsider(uid string, nodes []string) {
	x := q.pods[uid]
	if x == nil {
		return
	}
	x.tried = -1
	for _, n := range nodes {
		if _, ok := q.changed[n]; !ok {
			q.changed[n] = 0
		}
		if x.waits {
			q.markDue(n, x.class)
		}
	}
}

// Has reports whether a pod is in the queue. The queue wakes such a pod when that may help.
func (q *Queue[K, C, P]) Has(uid string) bool { return q.pods[uid] != nil }

// Change records that a node has changed. If hold is true, no pod is woken for the change until the caller calls
// Observed, which it must do soon. Without this delay, an attempt might be refused because of the old state, since
// the scheduler may not have received the event yet. hold is false if the queue is empty, or if an earlier change of
// the node is still held or due.
func (q *Queue[K, C, P]) Change(node string) (hold bool) {
	if len(q.pods) == 0 {
		return false
	}
	q.clock++
	q.changed[node] = q.clock
	if q.held[node] || q.due[node][nil] {
		return false
	}
	q.held[node] = true
	return true
}

// Observed records that the scheduler has received the change of a node.
func (q *Queue[K, C, P]) Observed(node string) {
	if q.held[node] {
		delete(q.held, node)
		q.markDue(node, nil)
	}
}

// Touch records an event that may make room on a node without changing what the rules read. An event that equals the
// last one recorded for the node is ignored.
func (q *Queue[K, C, P]) Touch(node, event string) {
	if len(q.pods) == 0 || q.touched[node] == event {
		return
	}
	q.touched[node] = event
	q.clock++
	q.changed[node] = q.clock
	q.markDue(node, nil)
}

// Pending reports whether Next has something to do.
func (q *Queue[K, C, P]) Pending() bool { return len(q.due) > 0 }

// Woken is a pod to try again.
type Woken[K comparable, P any] struct {
	UID   string
	Pod   P
	Class K
	// Node is the node that the pod is woken for. If no attempt begins within a while, the caller passes Attempt and
	// Node to Overdue.
	Node    string
	Attempt int
}

// Next returns the pods to wake for one node, in order. more is false if no node is due; out is then nil.
func (q *Queue[K, C, P]) Next() (out []Woken[K, P], more bool) {
	if len(q.due) == 0 {
		return nil, false
	}
	node := ""
	for n := range q.due {
		if node == "" || n < node {
			node = n
		}
	}
	classes := q.due[node]
	delete(q.due, node)
	if classes[nil] {
		for _, c := range q.classes {
			classes[c] = true
		}
		delete(classes, nil)
	}
	on := q.rules.At(node)
	for c := range classes {
		out = append(out, q.serve(c, node, on)...)
	}
	slices.SortFunc(out, func(a, b Woken[K, P]) int { return q.order(a.Pod, b.Pod) })
	return out, true
}

// serve wakes as many pods of a class as a node has room for, and those that the rules force.
func (q *Queue[K, C, P]) serve(c *class[K, C, P], node string, on Node[C, P]) (out []Woken[K, P]) {
	at, room := q.changed[node], -1
	for i := 0; i < len(c.waiting); i++ {
		x := c.waiting[i]
		// The pod was tried after the change, or something else than the rules excludes it here, or it must not be woken.
		if x.tried >= at || x.others.Has(node) || on.Bars(x.value) {
			continue
		}
		if room < 0 {
			q.asked++
			room = on.Room(c.value, min(MaxRoom, len(c.waiting)+c.trying[node]))
		}
		if c.trying[node] >= room && !on.Forces(c.value, x.value, room) {
			continue
		}
		q.unqueue(x)
		i--
		x.node = node
		c.trying[node]++
		out = append(out, Woken[K, P]{x.uid, x.value, c.key, node, x.attempt})
	}
	return out
}

// Overdue makes a woken pod wait again if no attempt has begun since it was woken: something else may prevent one.
func (q *Queue[K, C, P]) Overdue(uid string, attempt int, node string) {
	x := q.pods[uid]
	if x == nil || x.attempt != attempt || x.node != node || x.waits {
		return
	}
	q.endWakeUp(x)
	x.tried = q.clock
	q.wait(x)
}

// Each calls f for every pod, in no order, with its class and whether it waits.
func (q *Queue[K, C, P]) Each(f func(uid string, is C, waits bool)) {
	for uid, x := range q.pods {
		f(uid, x.class.value, x.waits)
	}
}

// Asked returns how often Room was called, for tests of its cost.
func (q *Queue[K, C, P]) Asked() int { return q.asked }

// wait adds a pod to the waiting ones of its class, in the order of the queue.
func (q *Queue[K, C, P]) wait(x *pod[K, C, P]) {
	i, _ := slices.BinarySearchFunc(x.class.waiting, x, q.compare)
	x.class.waiting = slices.Insert(x.class.waiting, i, x)
	x.waits = true
}

// unqueue removes a pod from the waiting ones.
func (q *Queue[K, C, P]) unqueue(x *pod[K, C, P]) {
	if x.waits {
		i, _ := slices.BinarySearchFunc(x.class.waiting, x, q.compare)
		x.class.waiting = slices.Delete(x.class.waiting, i, i+1)
		x.waits = false
	}
}

func (q *Queue[K, C, P]) compare(x, y *pod[K, C, P]) int { return q.order(x.value, y.value) }

// endWakeUp ends the wake-up of a pod for a node, if it was woken for one: the queue asks again for the class and the
// node.
func (q *Queue[K, C, P]) endWakeUp(x *pod[K, C, P]) {
	if x.node == "" {
		return
	}
	c := x.class
	if c.trying[x.node]--; c.trying[x.node] == 0 {
		delete(c.trying, x.node)
	}
	q.markDue(x.node, c)
	x.node = ""
}

// drop removes a pod from the queue.
func (q *Queue[K, C, P]) drop(x *pod[K, C, P]) {
	q.unqueue(x)
	q.endWakeUp(x)
	delete(q.pods, x.uid)
	if x.class.members--; x.class.members == 0 {
		delete(q.classes, x.class.key)
	}
	if len(q.pods) == 0 {
		clear(q.changed)
		clear(q.held)
		clear(q.due)
		clear(q.touched)
	}
}

// markDue marks a class to be asked about a node; nil marks all classes.
func (q *Queue[K, C, P]) markDue(node string, c *class[K, C, P]) {
	if q.due[node] == nil {
		q.due[node] = map[*class[K, C, P]]bool{}
	}
	q.due[node][c] = true
}
