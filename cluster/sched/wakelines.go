package sched

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// sleepers are the pods that this plugin has refused; it decides which of them are tried again, and when. Pods
// that get equal verdicts stand in one line. When a node has changed, every line is asked once whether its pods
// fit the node now; if so, as many of them are woken as the node can take, the most important first. The others
// sleep on. Whatever becomes of a pod that was woken, its line is asked again for that node: if the place was
// not taken, because some other plugin keeps the pod from there or because it went elsewhere, the next is woken.
//
// Invariant: no pod sleeps that fits a node which has changed since it was tried and of which only this plugin
// keeps it, unless as many pods of its line are being tried for that node as it can take. A change that makes
// nothing fit, nor could by the eviction of others, wakes nobody, and no pod is woken twice for one change of a node.
type sleepers struct {
	mu    sync.Mutex
	pods  map[string]*waiter // by UID: those that are tried now, and those that were refused
	lines map[lineKey]*line
	// clock counts changes of nodes and attempts, changed is when a node has changed last.
	clock   int
	changed map[string]int
	// held are nodes whose change is not acted on before the framework knows of it, due those that lines are
	// to be asked for; a nil line stands for all.
	held map[string]bool
	due  map[string]map[*line]bool
	// touched is the last event of a node that changed nothing in the book.
	touched map[string]string
	signal  chan struct{}

	snapshot func() *ledger.Snapshot
	later    func(time.Duration, func())
	asked    int // how often a line was asked for a node
}

const (
	// knownAfter is how long a change waits for the framework to learn of the event that brought it. A pod that
	// is tried before that is refused for what is over, and then backs off.
	knownAfter = 200 * time.Millisecond
	// triedAfter is how long a pod that was woken keeps others from being tried in its stead, should its attempt
	// never end: other plugins may keep it from the queue.
	triedAfter = 30 * time.Second
	// maxRoom bounds the pods of a line that are tried for one node at a time. Each that takes a place changes
	// the node, and makes room for the next to be woken.
	maxRoom = 16
	// maxRefusals bounds the sets of nodes that are kept for one line.
	maxRefusals = 64
)

// lineKey is what decides how a node answers a pod.
type lineKey struct {
	plugin *Plugin
	pod    string
	demand place.Demand
}

// line is the pods that get equal verdicts.
type line struct {
	key    lineKey
	state  *state // of any of them
	asleep []*waiter
	// up counts, by node, the pods that were woken for it and whose attempt has not ended.
	up map[string]int
	// refusals are sets of nodes, which pods share.
	refusals map[uint64]*nodeSet
	seed     maphash.Seed
	members  int
	// clearings are where pods were tried because they may make room for themselves; sums of who else was there.
	clearings map[clearing]uint64
}

// waiter is one pod.
type waiter struct {
	pod  *v1.Pod
	line *line
	// attempt tells its attempts apart, tried is when the last one began.
	attempt, tried int
	asleep         bool
	// node is the one that it was woken for, or "".
	node string
	// others are the nodes that other plugins have refused it: what changes there wakes it only if they say so.
	others *nodeSet
}

// nodeSet is some nodes, or all but some.
type nodeSet struct {
	names map[string]bool
	but   bool
}

func (s *nodeSet) has(node string) bool { return s != nil && s.names[node] != s.but }

func newSleepers(snapshot func() *ledger.Snapshot) *sleepers {
	return &sleepers{pods: map[string]*waiter{}, lines: map[lineKey]*line{}, changed: map[string]int{}, held: map[string]bool{},
		due: map[string]map[*line]bool{}, touched: map[string]string{}, signal: make(chan struct{}, 1), snapshot: snapshot,
		later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }}
}

// compare is the order in which pods of a line are woken.
func (x *waiter) compare(y *waiter) int {
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(y.pod), corev1helpers.PodPriority(x.pod)),
		x.pod.CreationTimestamp.Compare(y.pod.CreationTimestamp.Time), strings.Compare(string(x.pod.UID), string(y.pod.UID)))
}

// begin notes that a pod is tried, before the snapshot is taken that it is tried on.
func (w *sleepers) begin(p *Plugin, pod *v1.Pod, s *state) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.enter(p, pod, s)
	w.clock++
	x.attempt, x.tried = w.clock, w.clock
}

// enter makes the pod one that is tried, in its line.
func (w *sleepers) enter(p *Plugin, pod *v1.Pod, s *state) *waiter {
	key := lineKey{p, s.key, s.demand}
	x := w.pods[s.uid]
	if x != nil && x.line.key != key {
		w.drop(x)
		x = nil
	}
	if x == nil {
		l := w.lines[key]
		if l == nil {
			l = &line{key: key, state: &state{pod: s.pod, key: s.key, demand: s.demand}, up: map[string]int{},
				refusals: map[uint64]*nodeSet{}, seed: maphash.MakeSeed()}
			w.lines[key] = l
		}
		l.members++
		x = &waiter{line: l}
		w.pods[s.uid] = x
	}
	w.rouse(x)
	x.pod = pod
	return x
}

// rouse takes a pod out of those that sleep.
func (w *sleepers) rouse(x *waiter) {
	if x.asleep {
		i, _ := slices.BinarySearchFunc(x.line.asleep, x, (*waiter).compare)
		x.line.asleep = slices.Delete(x.line.asleep, i, i+1)
		x.asleep = false
	}
}

// settle ends what a pod was woken for: its line is asked again for that node.
func (w *sleepers) settle(x *waiter) {
	if x.node == "" {
		return
	}
	l := x.line
	if l.up[x.node]--; l.up[x.node] == 0 {
		delete(l.up, x.node)
	}
	w.ask(x.node, l)
	x.node = ""
}

// drop forgets a pod.
func (w *sleepers) drop(x *waiter) {
	w.rouse(x)
	w.settle(x)
	delete(w.pods, string(x.pod.UID))
	if x.line.members--; x.line.members == 0 {
		delete(w.lines, x.line.key)
	}
	if len(w.pods) == 0 {
		clear(w.changed)
		clear(w.held)
		clear(w.due)
		clear(w.touched)
	}
}

// gone notes that a pod has got its place, or is there no more.
func (w *sleepers) gone(uid string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.pods[uid]; x != nil {
		w.drop(x)
	}
}

// current returns which attempt of a pod is the last one; 0 where none is known.
func (w *sleepers) current(uid string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.pods[uid]; x != nil {
		return x.attempt
	}
	return 0
}

// failed notes that an attempt has ended without a place. If the plugin is among those that refused the pod, it
// sleeps, and others are the nodes that other plugins refused it; if not, they are nil, and who refused the pod
// wakes it.
func (w *sleepers) failed(pod *v1.Pod, attempt int, others *nodeSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.pods[string(pod.UID)]
	if x == nil || x.attempt != attempt {
		return // it is there no more, or tried anew
	}
	if others == nil {
		w.drop(x)
		return
	}
	w.settle(x)
	w.rouse(x)
	x.pod, x.others = pod, x.line.shared(others)
	w.sleep(x)
	for node, at := range w.changed {
		if at > x.tried {
			w.ask(node, x.line)
		}
	}
}

func (w *sleepers) sleep(x *waiter) {
	i, _ := slices.BinarySearchFunc(x.line.asleep, x, (*waiter).compare)
	x.line.asleep = slices.Insert(x.line.asleep, i, x)
	x.asleep = true
}

// again has a pod tried on every node, whatever it was tried on: it was refused though a node had been chosen.
func (w *sleepers) again(uid string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.pods[uid]; x != nil {
		x.tried = -1
		for n := range w.snapshot().All() {
			if _, ok := w.changed[n.Name]; !ok {
				w.changed[n.Name] = 0
			}
		}
	}
}

// knows reports whether a pod needs no hint of the framework's: it is woken when that helps.
func (w *sleepers) knows(uid string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid] != nil
}

// change notes that a node has changed. The book calls it.
func (w *sleepers) change(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pods) == 0 {
		return
	}
	w.clock++
	w.changed[node] = w.clock
	if w.held[node] || w.due[node][nil] {
		return
	}
	w.held[node] = true
	w.later(knownAfter, func() { w.told(node) })
}

// told notes that the framework knows of what has changed a node.
func (w *sleepers) told(node string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[node] {
		delete(w.held, node)
		w.ask(node, nil)
	}
}

// touch notes an event that may make room on a node though the book does not know of it: the node is new, or
// kept for nobody any more. The framework tells of one event many times.
func (w *sleepers) touch(node, event string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pods) == 0 || w.touched[node] == event {
		return
	}
	w.touched[node] = event
	w.clock++
	w.changed[node] = w.clock
	w.ask(node, nil)
}

// ask has a line asked for a node, or all lines.
func (w *sleepers) ask(node string, l *line) {
	if w.due[node] == nil {
		w.due[node] = map[*line]bool{}
	}
	w.due[node][l] = true
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// next returns the pods to be woken for one node that lines are to be asked for, the most important first; more
// is false when there is no such node.
func (w *sleepers) next() (out []wokenPod, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.due) == 0 {
		return nil, false
	}
	node := slices.Min(slices.Collect(maps.Keys(w.due)))
	lines := w.due[node]
	delete(w.due, node)
	if lines[nil] {
		for _, l := range w.lines {
			lines[l] = true
		}
		delete(lines, nil)
	}
	var woken []*waiter
	on := &residents{node: node}
	for l := range lines {
		woken = append(woken, w.serve(l, node, on)...)
	}
	slices.SortFunc(woken, (*waiter).compare)
	for _, x := range woken {
		out = append(out, wokenPod{x.line.key.plugin, x.pod})
	}
	return out, true
}

// wokenPod is a pod to be tried again by the profile of a plugin.
type wokenPod struct {
	plugin *Plugin
	pod    *v1.Pod
}

// serve wakes as many pods of a line as a node can take, and who may make room for itself there.
func (w *sleepers) serve(l *line, node string, on *residents) (woken []*waiter) {
	p, at, n, room := l.key.plugin, w.changed[node], w.snapshot().Node(node), -1
	for i := 0; i < len(l.asleep); i++ {
		x := l.asleep[i]
		if x.tried >= at || x.others.has(node) || p.evicts(x.pod) || n != nil && p.backoff.has(string(x.pod.UID), node, n.News) {
			continue
		}
		if room < 0 {
			w.asked++
			room = p.room(l.state, n, min(maxRoom, len(l.asleep)+l.up[node]))
		}
		if l.up[node] >= room && !p.awaits(x.pod, node) && (room > 0 || !l.clears(x, n, on)) {
			continue
		}
		w.rouse(x)
		i--
		x.node = node
		l.up[node]++
		woken = append(woken, x)
		uid, attempt := string(x.pod.UID), x.attempt
		w.later(triedAfter, func() { w.overdue(uid, attempt, node) })
	}
	return woken
}

// overdue gives up on a pod that was woken and not tried since.
func (w *sleepers) overdue(uid string, attempt int, node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.pods[uid]
	if x == nil || x.attempt != attempt || x.node != node || x.asleep {
		return
	}
	w.settle(x)
	x.tried = w.clock
	w.sleep(x)
}

// shared returns the set of nodes that equals the given one and that pods of the line have in common.
func (l *line) shared(s *nodeSet) *nodeSet {
	sum := uint64(0)
	if s.but {
		sum = 1
	}
	for name := range s.names {
		sum += maphash.String(l.seed, name)
	}
	if have := l.refusals[sum]; have != nil && have.but == s.but && maps.Equal(have.names, s.names) {
		return have
	}
	if len(l.refusals) >= maxRefusals {
		clear(l.refusals)
	}
	l.refusals[sum] = s
	return s
}

// accepts reports whether a node takes a pod, n being what is known of it or nil.
func (p *Plugin) accepts(s *state, n *ledger.Node) bool {
	switch {
	case n == nil:
		return p.lets(s)
	case !p.knows(n) || n.Silent && p.args.SilentNodes == config.Refuse:
		return false
	}
	return s.takes(n) && p.guards(s, n) == nil
}

// room returns how many pods that ask alike a node takes, at most as many as most.
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
