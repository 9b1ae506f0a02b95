package kube

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// Feed applies the events of pods, layouts and NodeResourceTopologies to a ledger. The handlers of an informer
// receive the events of an object in order. Queueing hints may pass the same events again, earlier or later: an event
// that is older than the recorded version of its object has no effect.
type Feed struct {
	book *ledger.Book
	listeners
	clocks

	// mu is held while an event is applied to the ledger, so that no later event is applied first.
	mu sync.Mutex
	// bound are the pods on all nodes. Begin books the pods that arrived before it, in the order of their bindings.
	bound boundPods
	begun bool
	// namespaces are those whose pods the feed receives; nil: all.
	namespaces *Seen
	// ended has the UIDs of pods that have ended, or whose objects were deleted: they never come back. The value is
	// mayRun for a pod that may still run on its node, and otherwise "".
	ended memory[string]
	layouts
	bases
	topologies
	// machines lets equal nodes share one machine.
	machines topo.Pool
	pacing
}

// listeners receive what a feed finds. They are set before the feed begins.
type listeners struct {
	// onOutcome receives the outcomes of predictions.
	onOutcome func(state.Outcome)
	// onRefused receives rejected layouts with an error. It also receives accepted layouts, with a nil error, if
	// their conditions do not yet record the acceptance.
	onRefused func(node string, err error)
	// onTopology receives rejected NodeResourceTopologies.
	onTopology func(node string, err error)
	// onLeftOut receives nodes whose NodeResourceTopology is needed as a whole.
	onLeftOut func(node string)
	// onConditions receives conditions of NodeResourceTopologies that changed.
	onConditions func(node string, conditions []string)
	onFreed      func(node string)
	onReport     func(l *v1alpha1.NodeLayout)
}

// clocks are replaced by tests: later calls a function after a delay; now returns the time.
type clocks struct {
	later func(time.Duration, func())
	now   func() time.Time
}

// layouts is what a feed keeps of the layouts of nodes, by node.
type layouts struct {
	// versions has the last version received of every layout; problems has why layouts were rejected.
	versions map[string]version
	problems map[string]string
	// written has when the agents wrote the last layouts that were accepted, by the API server's clock.
	written map[string]time.Time
	// exact has the nodes whose layout is valid.
	exact map[string]bool
	// dropped has the resource versions of deleted layouts. Older events, which hints may pass, are ignored.
	dropped memory[string]
}

// topologies is what a feed keeps of NodeResourceTopologies.
type topologies struct {
	// coarse has the nodes with a NodeResourceTopology or a Numatopology.
	coarse map[string]*coarse
	// goneTopologies has the resource versions of deleted objects. Older events, which hints may pass, are ignored.
	goneTopologies memory[string]
}

// pacing limits how much work the events of one node cause, see pace.go.
type pacing struct {
	// paces are the event rates of nodes. When their number reaches sweep, unused ones are dropped.
	paces map[string]*pace
	sweep int
	paced atomic.Int64 // see Paced
}

// version is the newest version received of a layout. An agent numbers its writes: a delayed write may arrive late,
// under a new resource version.
type version struct {
	resource string
	uid      types.UID
	sequence int64
	late     *v1alpha1.NodeLayout // the API server's newest object, while it is rejected for its lower sequence; else nil
}

// lateGrace is how long a layout with a lower sequence is rejected. Its agent sees that the write arrived late, and
// writes again within a second. A layout that is not written again within lateGrace is accepted. So a forged sequence
// that no agent can exceed blocks a node for lateGrace at most.
const lateGrace = 10 * time.Second

// vanishGrace is how long a pod that was deleted by force stays assumed without a report of its node.
const vanishGrace = 30 * time.Second

// mayRun is the value in Feed.ended for a pod whose object was deleted although the node may still run the pod. For
// all other pods in that map the value is "".
const mayRun = "may run"

// NewFeed returns a feed into a ledger. The callbacks may be nil; they must not call the feed.
func NewFeed(book *ledger.Book, onOutcome func(state.Outcome), onRefused func(node string, err error)) *Feed {
	if onOutcome == nil {
		onOutcome = func(state.Outcome) {}
	}
	if onRefused == nil {
		onRefused = func(string, error) {}
	}
	return &Feed{book: book,
		listeners: listeners{onOutcome: onOutcome, onRefused: onRefused, onTopology: func(string, error) {},
			onLeftOut:    func(string) {},
			onConditions: func(string, []string) {}, onFreed: func(string) {}, onReport: func(*v1alpha1.NodeLayout) {}},
		clocks: clocks{now: time.Now, later: func(d time.Duration, do func()) { time.AfterFunc(d, do) }},
		bound:  newBoundPods(),
		layouts: layouts{versions: map[string]version{}, problems: map[string]string{}, written: map[string]time.Time{},
			exact: map[string]bool{}},
		bases: bases{base: map[string]*v1alpha1.Base{}, awaiting: map[string]*incomplete{},
			applied: map[string]*v1alpha1.NodeLayout{}},
		topologies: topologies{coarse: map[string]*coarse{}},
		pacing:     pacing{paces: map[string]*pace{}}}
}

// Sees sets the namespaces whose pods the feed receives; nil, the default, means all. Call it before Begin.
func (f *Feed) Sees(pods *Seen) { f.namespaces = pods }

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

// each calls do with the object of an informer's event. If the informer missed a deletion, that is the last object it
// had. Objects of another type are ignored.
func each[T any](o any, do func(T)) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if x, ok := o.(T); ok {
		do(x)
	}
}

// Begin books the pods that were bound before the feed began, in the order of their bindings, and then the
// NodeResourceTopologies that have arrived. The caller calls it once, when all informers have delivered their first
// lists.
func (f *Feed) Begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true
	pods := slices.SortedFunc(maps.Values(f.bound.pods), (*boundPod).compareBinding)
	// All are assumed before any is admitted, because no object shows the order in which the nodes admitted them.
	for _, p := range pods {
		bookPod(p, f.book.Recover)
		f.bookDecision(p)
		f.bookRelations(p)
	}
	for _, p := range pods {
		f.admitted(p)
		f.initsEnded(p)
		f.contradict(p)
		f.bookStatus(p)
	}
	// A pod that a layout lists and the API server does not have is doubtful: it has ended or was deleted by force.
	// The callback returns true for the pods that exist, as far as this feed can know.
	doubted := f.book.Doubt(func(id state.PodID) bool { return !f.namespaces.gone(id, f.bound.pods[id.UID] != nil) })
	if len(doubted) > 0 {
		f.later(reportDue, func() {
			for _, uid := range doubted {
				f.overdue(uid)
			}
		})
	}
	f.beginCoarse()
}

// Pod receives a pod that was added or changed. It ignores a pod without a node, and a pod that PodGone has received
// before. It passes a pod that has ended to PodGone.
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
		bookPod(p, f.book.Assume)
		f.bookDecision(p)
		f.bookRelations(p)
		f.admitted(p)
		f.initsEnded(p)
		f.bookStatus(p)
	}
}

// bookPod passes a bound pod to book, unless it has no spec.
func bookPod(p *boundPod, book func(string, state.PodID, *place.Pod)) {
	if p.spec != nil {
		book(p.node, p.id, p.spec)
	}
}

// bookDecision passes a pod's decision to the ledger if the agent of its node pins containers. Like the agent, it
// ignores a decision that cannot be parsed.
func (f *Feed) bookDecision(p *boundPod) {
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

// bookRelations passes the keys of a pod that is related to others to the ledger.
func (f *Feed) bookRelations(p *boundPod) {
	if p.relations != nil {
		f.book.Relate(p.node, p.id.UID, *p.relations)
	}
}

// statusLag is the longest delay of a pod status after a newer status of another pod: a kubelet repeats failed status
// updates every ten seconds (pkg/kubelet/status).
const statusLag = 30 * time.Second

// admitted records that a pod's kubelet has admitted it, once the pod's status shows that. It starts three timers.
// After statusLag, every end of a pod that is received later came after the admission (Book.Settle). After reportDue,
// a report of the node should list the pod (unlisted). After settlePeriod, the amounts of a NodeResourceTopology
// should contain the pod (settled). f.mu is held.
func (f *Feed) admitted(p *boundPod) {
	if uid := p.id.UID; p.started && p.spec != nil && f.book.Admitted(uid) {
		f.later(statusLag, func() { f.book.Settle(uid) })
		f.later(reportDue, func() { f.unlisted(p) })
		f.later(settlePeriod, func() { f.settled(p) })
	}
}

// PodGone receives a pod that was deleted or has ended. If its kubelet rejected it, that is the outcome of its
// prediction.
func (f *Feed) PodGone(pod *v1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uid := string(pod.UID)
	p := f.bound.drop(uid)
	if p != nil {
		f.book.Status(p.node, uid, place.Statuses{})
		if c := f.coarse[p.node]; c != nil && c.reported {
			c.addEnded(p)
			f.later(settlePeriod, func() { f.longEnded(p) })
		}
	}
	if !endedFor(pod) {
		f.ended.put(uid, mayRun)
	} else {
		f.ended.put(uid, "")
	}
	why, refused := Rejection(pod)
	if refused {
		if o, ok := f.book.Refuse(uid, why); ok {
			f.onOutcome(o)
		}
	}
	f.Leave(pod)
	if p != nil {
		f.book.Relate(p.node, uid, state.Relations{})
	}
	if !refused && f.book.Booked(pod.Spec.NodeName, uid) {
		f.later(vanishGrace, func() { f.book.Unreserve(uid) })
	}
}

// PodUnread receives a pod that may not be read any more, and whose end or change will not be received either. It
// counts as a pod of a namespace that is not seen from then on: it holds what its node's layout lists.
func (f *Feed) PodUnread(pod *v1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uid := string(pod.UID)
	if p := f.bound.drop(uid); p != nil {
		f.book.Status(p.node, uid, place.Statuses{})
		f.book.Decline(uid)
		f.book.Relate(p.node, uid, state.Relations{})
	}
}

// Leave receives a pod that leaves its node, for now or for good: the framework reports a deleted pod and a pod that
// could not be bound in the same way. A pod that was being deleted counts as ended, because its kubelet confirms the
// deletion. Any other pod may have ended, or may have been deleted by force and still run.
func (f *Feed) Leave(pod *v1.Pod) {
	if endedFor(pod) {
		f.book.Release(string(pod.UID))
	} else {
		f.vanish(string(pod.UID))
	}
}

// vanish records that the object of a pod is gone although the pod may still run. If no report of its node settles
// this within reportDue, other pods no longer wait for that report.
func (f *Feed) vanish(uid string) {
	f.book.Vanish(uid)
	if f.book.Doubted(uid) {
		f.later(reportDue, func() { f.overdue(uid) })
	}
}

// endedFor reports whether a pod that left its node holds nothing there any more. Otherwise it may still run: it was
// deleted by force.
func endedFor(pod *v1.Pod) bool {
	return Ended(pod) || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil
}
