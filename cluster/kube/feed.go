package kube

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Feed writes the events of pods, layouts and NodeResourceTopologies into a book. The handlers of an informer receive
// the events of an object in order. Queueing hints may bring the same events again, earlier or later: an event that is
// older than the recorded version of its object changes nothing.
type Feed struct {
	book *ledger.Book
	// onOutcome receives the outcomes of predictions. onRefused receives the layouts that were rejected, and a nil
	// error when a layout is accepted whose conditions do not say so yet.
	onOutcome func(ledger.Outcome)
	onRefused func(node string, err error)

	// mu is held while an event goes into the book, so that no other event overtakes it on the way.
	mu sync.Mutex
	// bound are the pods on all nodes. Those that were seen before Begin are booked in binding order then.
	bound boundPods
	begun bool
	// versions is the last version seen of every layout; problems is why one was refused.
	versions map[string]version
	problems map[string]string
	// exact has the nodes whose layout is understood, coarse those that have a NodeResourceTopology.
	exact  map[string]bool
	coarse map[string]*coarse
	// onTopology receives the NodeResourceTopologies that were rejected.
	onTopology func(node string, err error)
	// onConditions receives conditions of NodeResourceTopologies that changed.
	onConditions func(node string, conditions []string)
	onFreed      func(node string)
	onReport     func(l *v1alpha1.NodeLayout)
	// ended has the UIDs of pods that will never hold anything again, dropped and goneTopologies the
	// resource versions of objects that were deleted: what hints still tell of them is old.
	ended, dropped, goneTopologies memory
	// machines are those of nodes: equal nodes share one.
	machines topo.Pool
	// later does something after a while, now is the time; tests decide when that is.
	later func(time.Duration, func())
	now   func() time.Time
	// paces are those of nodes, see pace.go; sweep is the number of them at which some are dropped.
	paces map[string]*pace
	sweep int
	paced atomic.Int64
}

// version is how far a layout is known. An agent counts what it writes: a write that was held up on its
// way may come in late under a new resource version.
type version struct {
	resource string
	uid      types.UID
	sequence int64
	late     *v1alpha1.NodeLayout // what was refused as late, and is the newest of the API server
}

// lateGrace is how long a layout with an older sequence is rejected. Its agent sees that the write arrived late, and
// writes again within a second. A layout that is not written again in that time is accepted, so that a forged sequence
// that no agent can exceed blocks a node for lateGrace at most.
const lateGrace = 10 * time.Second

// vanishGrace is how long a pod that was deleted by force counts as assumed without a report of its node.
const vanishGrace = 30 * time.Second

// NewFeed returns a feed into a book. The callbacks may be nil; they must not call the feed.
func NewFeed(book *ledger.Book, onOutcome func(ledger.Outcome), onRefused func(node string, err error)) *Feed {
	if onOutcome == nil {
		onOutcome = func(ledger.Outcome) {}
	}
	if onRefused == nil {
		onRefused = func(string, error) {}
	}
	return &Feed{book: book, onOutcome: onOutcome, onRefused: onRefused,
		onTopology: func(string, error) {}, onConditions: func(string, []string) {}, onFreed: func(string) {},
		onReport: func(*v1alpha1.NodeLayout) {},
		bound:    newBoundPods(), versions: map[string]version{}, problems: map[string]string{},
		exact: map[string]bool{}, coarse: map[string]*coarse{},
		paces: map[string]*pace{}, now: time.Now,
		later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }}
}

// Pods returns the handlers for a pod informer.
func (f *Feed) Pods() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { each(o, f.Pod) },
		UpdateFunc: func(_, o any) { each(o, f.Pod) },
		DeleteFunc: func(o any) { each(o, f.PodGone) },
	}
}

// Layouts returns the handlers for an informer of typed NodeLayouts.
func (f *Feed) Layouts() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { each(o, f.Layout) },
		UpdateFunc: func(_, o any) { each(o, f.Layout) },
		DeleteFunc: func(o any) { each(o, f.LayoutGone) },
	}
}

func each[T any](o any, do func(T)) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if x, ok := o.(T); ok {
		do(x)
	}
}

// Begin books the pods that were bound before the feed began, in the order in which they were bound, and
// then takes the NodeResourceTopologies that have come. It is called once, when all informers have
// delivered their first lists.
func (f *Feed) Begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true
	pods := slices.SortedFunc(maps.Values(f.bound.pods), (*boundPod).compare)
	// All are assumed before any is admitted, because no object has the order in which the nodes admitted them.
	for _, p := range pods {
		put(p, f.book.Recover)
		f.decided(p)
	}
	for _, p := range pods {
		f.admitted(p)
		f.begin(p)
		f.contradict(p)
	}
	f.book.Doubt(func(uid string) bool { return f.bound.pods[uid] != nil })
	f.beginCoarse()
}

// Pod takes a pod that was added or changed.
func (f *Feed) Pod(pod *v1.Pod) {
	if Ended(pod) {
		f.PodGone(pod)
		return
	}
	if pod.Spec.NodeName == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ended := f.ended.get(string(pod.UID)); ended {
		return
	}
	known := f.bound.pods[string(pod.UID)] != nil
	p := f.bound.put(pod)
	if f.begun {
		if !known {
			f.contradict(p)
		}
		put(p, f.book.Assume)
		f.decided(p)
		f.admitted(p)
		f.begin(p)
	}
}

// put books a pod that is bound.
func put(p *boundPod, book func(string, ledger.PodID, *place.Pod)) {
	if p.spec != nil {
		book(p.node, p.id, p.spec)
	}
}

// decided tells the book what was decided for a pod that was bound to a node where the agent is the arbiter. It uses
// the decision on the terms of the agent: one that cannot be read is none.
func (f *Feed) decided(p *boundPod) {
	if p.decision == "" || p.spec == nil {
		return
	}
	n := f.book.Snapshot().Node(p.node)
	if n == nil || n.Rules.Arbiter != place.ByAgent {
		return
	}
	if hs, err := v1alpha1.ParseDecision(p.decision, n.Machine, p.id.UID, p.node); err == nil {
		f.book.Decided(p.id.UID, hs)
	}
}

// statusLag is how much later than a pod's status that of another may come that is older: a kubelet
// writes what it missed every ten seconds (pkg/kubelet/status).
const statusLag = 30 * time.Second

// reportDue is how long a node may take to report a pod that is known to be admitted, or no more to report
// one that is gone, before it counts as silent. Agents take less than a second.
const reportDue = time.Minute

func (f *Feed) admitted(p *boundPod) {
	if uid := p.id.UID; p.started && p.spec != nil && f.book.Admitted(uid) {
		f.later(statusLag, func() { f.book.Settle(uid) })
		f.later(settlePeriod, func() { f.settled(p) })
	}
}

// PodGone takes a pod that was deleted or has ended.
func (f *Feed) PodGone(pod *v1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uid := string(pod.UID)
	if p := f.bound.drop(uid); p != nil {
		if c := f.coarse[p.node]; c != nil && c.counts {
			c.left(p)
			f.later(settlePeriod, func() { f.over(p) })
		}
	}
	f.ended.put(uid, "")
	why, refused := Rejection(pod)
	if refused {
		if o, ok := f.book.Refuse(uid, why); ok {
			f.onOutcome(o)
		}
	}
	f.Leave(pod)
	if !refused && f.book.Booked(pod.Spec.NodeName, uid) {
		f.later(vanishGrace, func() { f.book.Unreserve(uid) })
	}
}

// Leave takes a pod that leaves its node, for now or for good: the framework words it alike when a pod
// was deleted and when it could not be bound. One that was being deleted has ended, since its kubelet has
// the last word on that. Any other may have ended, or may have been deleted by force and run still.
func (f *Feed) Leave(pod *v1.Pod) {
	if Ended(pod) || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		f.book.Release(string(pod.UID))
	} else {
		uid := string(pod.UID)
		f.book.Vanish(uid)
		if f.book.Doubted(uid) {
			f.later(reportDue, func() { f.book.Overdue(uid) })
		}
	}
}

// Layout takes a layout that was added or changed. One that cannot be read is refused: its node is known
// by its NodeResourceTopology from then on, or unknown, and no other node is touched.
func (f *Feed) Layout(l *v1alpha1.NodeLayout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newer(l) {
		f.atPace(l.Name, weight(l), func() { f.take(l) })
	}
}

// take brings a layout into the book. The lock is held.
func (f *Feed) take(l *v1alpha1.NodeLayout) {
	c, err := l.CoreOn(f.machines.New)
	if err != nil {
		f.unlaid(l.Name)
		if f.problems[l.Name] != err.Error() {
			f.problems[l.Name] = err.Error()
			f.onRefused(l.Name, err)
		}
		return
	}
	_, was := f.problems[l.Name]
	delete(f.problems, l.Name)
	if was || unconditioned(l) {
		f.onRefused(l.Name, nil)
	}
	f.laid(l.Name)
	out := f.book.Report(l.Name, ledger.Layout{Machine: c.Machine, Rules: c.Rules, Entries: c.Entries, Groups: c.Groups,
		Inexact: append(c.Inexact, f.contradiction(l.Name, c.Entries)...)})
	for _, o := range out {
		f.onOutcome(o)
	}
	f.onReport(l)
}

// unconditioned reports whether an accepted layout lacks its conditions: it is new, or was corrected after the
// scheduler that refused it had ended.
func unconditioned(l *v1alpha1.NodeLayout) bool {
	return !meta.IsStatusConditionTrue(l.Status.Conditions, v1alpha1.ConditionAccepted) ||
		meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionExact) == nil
}

// OnReport has a function called with every layout that is in the book. It is set before the first event, and
// must not call the feed.
func (f *Feed) OnReport(do func(*v1alpha1.NodeLayout)) { f.onReport = do }

// newer notes the version of a layout, and reports whether it tells more than what is known.
func (f *Feed) newer(l *v1alpha1.NodeLayout) bool {
	now := version{resource: l.ResourceVersion, uid: l.UID, sequence: l.Sequence}
	old, known := f.versions[l.Name]
	if !known {
		old.resource, known = f.dropped.get(l.Name)
	}
	if known && compare(now.resource, old.resource) <= 0 {
		return false
	}
	late := now.uid == old.uid && now.sequence < old.sequence
	if late {
		now.sequence, now.late = old.sequence, l
		if old.late == nil {
			f.later(lateGrace, func() { f.overdue(l.Name) })
		}
	}
	f.versions[l.Name] = now
	return !late
}

// overdue takes the layout that was refused as late, if nothing newer has come since.
func (f *Feed) overdue(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, known := f.versions[node]
	if !known || v.late == nil {
		return
	}
	l := v.late
	v.sequence, v.late = l.Sequence, nil
	f.versions[node] = v
	f.atPace(node, weight(l), func() { f.take(l) })
}

// LayoutGone takes a layout that was deleted. If a newer one of that name is known already, it stays.
func (f *Feed) LayoutGone(l *v1alpha1.NodeLayout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.versions[l.Name]; ok && compare(l.ResourceVersion, known.resource) < 0 {
		return
	}
	f.dropped.put(l.Name, l.ResourceVersion)
	delete(f.versions, l.Name)
	f.atPace(l.Name, 1, func() {
		delete(f.problems, l.Name)
		f.unlaid(l.Name)
		f.later(0, func() { f.onFreed(l.Name) })
	})
}

// compare compares resource versions; what is not a resource version is newer than everything.
func compare(a, b string) int {
	c, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return 1
	}
	return c
}

// Problem returns why the layout of a node was refused, or "".
func (f *Feed) Problem(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems[node]
}
