// Package wake decides which waiting pods are tried again when a node changes, and in which order.
//
// Pods that every node answers alike form an equivalence class. When a node has changed, each class is asked once how
// many of its pods the node has room for, and that many are woken, in the order of the queue. The others keep waiting.
// Whatever becomes of a pod that was woken, its class is asked again for that node: if the room was not taken, because
// something else keeps the pod from there or because it went elsewhere, the next pod is woken.
//
// Invariant: no pod waits that a node takes which has changed since the pod was tried and which only the rules kept it
// from, unless as many pods of its class are being tried for that node as it has room for. A change that makes no room
// wakes nobody, and no pod is woken twice for one change of a node.
//
// The package has no clock and no lock: a caller says when delays are over, and calls one method at a time. It refuses
// nothing; events of pods that it does not have are ignored.
package wake

import "slices"

const (
	// MaxRoom bounds the pods of a class that are tried for one node at a time. Each that takes a place changes the
	// node, and so makes the queue wake the next.
	MaxRoom = 16
	// maxShared bounds the sets of nodes that are kept for one class.
	maxShared = 64
)

// Rules answer for nodes.
type Rules[C, P any] interface {
	// At returns the rules of a node in its present state.
	At(node string) Node[C, P]
}

// Node answers for one node in one state. C is what stands for a class, P for a pod.
type Node[C, P any] interface {
	// Bars reports whether the pod is not to be woken for this node now, whatever room there is.
	Bars(pod P) bool
	// Room returns for how many pods of a class the node has room, at most most.
	Room(class C, most int) int
	// Forces reports whether a pod is to be woken though the node has room for no more than those of its class that are
	// being tried, room being what Room returned.
	Forces(class C, pod P, room int) bool
}

// Queue is the pods that wait or are being tried. K tells classes apart.
type Queue[K comparable, C, P any] struct {
	rules   Rules[C, P]
	order   func(a, b P) int
	pods    map[string]*pod[K, C, P] // by UID
	classes map[K]*class[K, C, P]
	// clock counts changes of nodes and attempts, changed is when each node changed last.
	clock   int
	changed map[string]int
	// held are nodes whose change is not acted on until it is Observed, due those for which classes are to be asked;
	// a nil class stands for all.
	held map[string]bool
	due  map[string]map[*class[K, C, P]]bool
	// touched is the last event of each node that Touch recorded.
	touched map[string]string
	asked   int
}

// class is the pods that nodes answer alike.
type class[K comparable, C, P any] struct {
	key     K
	is      C
	members int
	waiting []*pod[K, C, P] // in the order of the queue
	trying  map[string]int  // by node: pods that were woken for it and whose attempt has not ended
	shared  map[uint64]*Nodes
}

// pod is one pod that waits or is tried.
type pod[K comparable, C, P any] struct {
	uid   string
	is    P
	class *class[K, C, P]
	// attempt tells attempts apart; tried is when the last one began.
	attempt, tried int
	waits          bool
	node           string // for which it was woken, or ""
	others         *Nodes
}

// New returns an empty queue. order is the order in which pods of a class are woken; it must be total.
func New[K comparable, C, P any](rules Rules[C, P], order func(a, b P) int) *Queue[K, C, P] {
	return &Queue[K, C, P]{rules: rules, order: order, pods: map[string]*pod[K, C, P]{}, classes: map[K]*class[K, C, P]{},
		changed: map[string]int{}, held: map[string]bool{}, due: map[string]map[*class[K, C, P]]bool{},
		touched: map[string]string{}}
}

// Begin notes that a pod is tried. It is called before the state of nodes is read that the pod is tried on.
func (q *Queue[K, C, P]) Begin(uid string, key K, is C, p P) {
	x := q.pods[uid]
	if x != nil && x.class.key != key {
		q.drop(x)
		x = nil
	}
	if x == nil {
		c := q.classes[key]
		if c == nil {
			c = &class[K, C, P]{key: key, is: is, trying: map[string]int{}, shared: map[uint64]*Nodes{}}
			q.classes[key] = c
		}
		c.members++
		x = &pod[K, C, P]{uid: uid, class: c}
		q.pods[uid] = x
	}
	q.unqueue(x)
	x.is = p
	q.clock++
	x.attempt, x.tried = q.clock, q.clock
}

// Attempt returns the number of a pod's last attempt; 0 where none is known.
func (q *Queue[K, C, P]) Attempt(uid string) int {
	if x := q.pods[uid]; x != nil {
		return x.attempt
	}
	return 0
}

// Fail notes that an attempt ended without a place. others are the nodes from which something other than the rules
// keeps the pod. If the rules did not keep it from any node, others is nil, and the queue forgets the pod.
func (q *Queue[K, C, P]) Fail(uid string, p P, attempt int, others *Nodes) {
	x := q.pods[uid]
	if x == nil || x.attempt != attempt {
		return // it is gone, or is tried anew
	}
	if others == nil {
		q.drop(x)
		return
	}
	q.settle(x)
	q.unqueue(x)
	x.is, x.others = p, x.class.share(others)
	q.wait(x)
	for node, at := range q.changed {
		if at > x.tried {
			q.ask(node, x.class)
		}
	}
}

// Remove forgets a pod that has a place or is gone.
func (q *Queue[K, C, P]) Remove(uid string) {
	if x := q.pods[uid]; x != nil {
		q.drop(x)
	}
}

// Reconsider has a pod tried on all of some nodes once its attempt has failed, though they have not changed.
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
	}
}

// Has reports whether the queue wakes a pod when that helps.
func (q *Queue[K, C, P]) Has(uid string) bool { return q.pods[uid] != nil }

// Change notes that a node has changed. If hold is true, the caller must call Observed for the node, at the latest
// after a short while: a pod that is tried before the scheduler has seen the event would be refused for what is over.
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

// Observed notes that the scheduler has seen what changed a node.
func (q *Queue[K, C, P]) Observed(node string) {
	if q.held[node] {
		delete(q.held, node)
		q.ask(node, nil)
	}
}

// Touch notes an event that may make room on a node though it changes nothing that the rules read. The same event of a
// node counts once.
func (q *Queue[K, C, P]) Touch(node, event string) {
	if len(q.pods) == 0 || q.touched[node] == event {
		return
	}
	q.touched[node] = event
	q.clock++
	q.changed[node] = q.clock
	q.ask(node, nil)
}

// Pending reports whether Next has something to do.
func (q *Queue[K, C, P]) Pending() bool { return len(q.due) > 0 }

// Woken is a pod to be tried again.
type Woken[K comparable, P any] struct {
	UID   string
	Pod   P
	Class K
	// Node is the one that it is woken for. Should the attempt not begin within a while, the caller passes Attempt and
	// Node to Overdue.
	Node    string
	Attempt int
}

// Next returns the pods to be woken for one node, in order; more is false when there is no such node.
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
		if x.tried >= at || x.others.Has(node) || on.Bars(x.is) {
			continue
		}
		if room < 0 {
			q.asked++
			room = on.Room(c.is, min(MaxRoom, len(c.waiting)+c.trying[node]))
		}
		if c.trying[node] >= room && !on.Forces(c.is, x.is, room) {
			continue
		}
		q.unqueue(x)
		i--
		x.node = node
		c.trying[node]++
		out = append(out, Woken[K, P]{x.uid, x.is, c.key, node, x.attempt})
	}
	return out
}

// Overdue gives up on a pod that was woken and not tried since: something else may keep it from being tried.
func (q *Queue[K, C, P]) Overdue(uid string, attempt int, node string) {
	x := q.pods[uid]
	if x == nil || x.attempt != attempt || x.node != node || x.waits {
		return
	}
	q.settle(x)
	x.tried = q.clock
	q.wait(x)
}

// Each calls f for every pod, in no order, with its class and whether it waits.
func (q *Queue[K, C, P]) Each(f func(uid string, is C, waits bool)) {
	for uid, x := range q.pods {
		f(uid, x.class.is, x.waits)
	}
}

// Asked returns how often a class was asked for its room on a node, for tests of what that costs.
func (q *Queue[K, C, P]) Asked() int { return q.asked }

func (q *Queue[K, C, P]) wait(x *pod[K, C, P]) {
	i, _ := slices.BinarySearchFunc(x.class.waiting, x, q.compare)
	x.class.waiting = slices.Insert(x.class.waiting, i, x)
	x.waits = true
}

// unqueue takes a pod out of those that wait.
func (q *Queue[K, C, P]) unqueue(x *pod[K, C, P]) {
	if x.waits {
		i, _ := slices.BinarySearchFunc(x.class.waiting, x, q.compare)
		x.class.waiting = slices.Delete(x.class.waiting, i, i+1)
		x.waits = false
	}
}

func (q *Queue[K, C, P]) compare(x, y *pod[K, C, P]) int { return q.order(x.is, y.is) }

// settle ends what a pod was woken for: its class is asked again for that node.
func (q *Queue[K, C, P]) settle(x *pod[K, C, P]) {
	if x.node == "" {
		return
	}
	c := x.class
	if c.trying[x.node]--; c.trying[x.node] == 0 {
		delete(c.trying, x.node)
	}
	q.ask(x.node, c)
	x.node = ""
}

func (q *Queue[K, C, P]) drop(x *pod[K, C, P]) {
	q.unqueue(x)
	q.settle(x)
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

// ask has a class asked for a node, or all classes.
func (q *Queue[K, C, P]) ask(node string, c *class[K, C, P]) {
	if q.due[node] == nil {
		q.due[node] = map[*class[K, C, P]]bool{}
	}
	q.due[node][c] = true
}
