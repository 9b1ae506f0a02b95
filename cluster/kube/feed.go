package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// Feed brings the events of pods and layouts into a book. Events of the same object must come in order;
// an event may come twice, from an informer's handler and from a queueing hint, whichever is first.
type Feed struct {
	book *ledger.Book
	// onOutcome is told how predictions came out, onRefused of layouts that were refused, and with a nil error of those mended since.
	onOutcome func(ledger.Outcome)
	onRefused func(node string, err error)

	mu sync.Mutex
	// early holds pods that were seen before Begin: they are booked in binding order then.
	early map[string]*v1.Pod
	begun bool
	// versions is the last resource version seen of every layout; problems is why one was refused.
	versions map[string]string
	problems map[string]string
}

// NewFeed returns a feed into a book. The callbacks may be nil.
func NewFeed(book *ledger.Book, onOutcome func(ledger.Outcome), onRefused func(node string, err error)) *Feed {
	if onOutcome == nil {
		onOutcome = func(ledger.Outcome) {}
	}
	if onRefused == nil {
		onRefused = func(string, error) {}
	}
	return &Feed{book: book, onOutcome: onOutcome, onRefused: onRefused,
		early: map[string]*v1.Pod{}, versions: map[string]string{}, problems: map[string]string{}}
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

// Begin books the pods that were bound before the feed began, in the order in which they were bound.
// It is called once, when both informers have delivered their first lists.
func (f *Feed) Begin() {
	f.mu.Lock()
	pods := make([]*v1.Pod, 0, len(f.early))
	for _, p := range f.early {
		pods = append(pods, p)
	}
	f.early, f.begun = nil, true
	f.mu.Unlock()
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(bound(a).Compare(bound(b)), a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	for _, p := range pods {
		f.Pod(p)
	}
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
	if !f.begun {
		f.early[string(pod.UID)] = pod
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	p, err := Pod(pod)
	if err != nil || p.Plain() {
		return // nothing that a manager would align; the API server admits no quantity that Pod refuses
	}
	f.book.Assume(pod.Spec.NodeName, ID(pod), p)
	if Started(pod) {
		f.book.Admitted(string(pod.UID))
	}
}

// PodGone takes a pod that was deleted or has ended.
func (f *Feed) PodGone(pod *v1.Pod) {
	f.mu.Lock()
	delete(f.early, string(pod.UID))
	f.mu.Unlock()
	f.book.Release(string(pod.UID))
}

// Layout takes a layout that was added or changed. One that cannot be read is refused: its node is
// treated as unknown from then on, and no other node is touched.
func (f *Feed) Layout(l *v1alpha1.NodeLayout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.versions[l.Name]; ok {
		if c, err := resourceversion.CompareResourceVersion(l.ResourceVersion, old); err == nil && c <= 0 {
			return // a hint brought this one, or a newer one, already
		}
	}
	f.versions[l.Name] = l.ResourceVersion
	c, err := l.Core()
	if err != nil {
		f.book.Forget(l.Name)
		if f.problems[l.Name] != err.Error() {
			f.problems[l.Name] = err.Error()
			f.onRefused(l.Name, err)
		}
		return
	}
	if _, was := f.problems[l.Name]; was {
		delete(f.problems, l.Name)
		f.onRefused(l.Name, nil)
	}
	out := f.book.Report(l.Name, ledger.Layout{Machine: c.Machine, Rules: c.Rules, Entries: c.Entries, Groups: c.Groups})
	for _, o := range out {
		f.onOutcome(o)
	}
}

// LayoutGone takes a layout that was deleted.
func (f *Feed) LayoutGone(l *v1alpha1.NodeLayout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.versions, l.Name)
	delete(f.problems, l.Name)
	f.book.Forget(l.Name)
}

// Problem returns why the layout of a node was refused, or "".
func (f *Feed) Problem(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems[node]
}

// bound returns when a pod was bound, as far as its status says.
func bound(pod *v1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// Describe tells an outcome in one line.
func Describe(o ledger.Outcome) string {
	return fmt.Sprintf("pod %s on node %s: %s: predicted %s, seen %s", o.Pod, o.Node, o.Result, Holdings(o.Predicted), Holdings(o.Seen))
}

// Holdings tells holdings in one line, in the order of containers.
func Holdings(hs []place.Holding) string {
	var parts []string
	for _, h := range hs {
		s := h.Container + ":"
		if !h.CPUs.Empty() {
			s += " cpus " + h.CPUs.String()
		}
		for _, b := range h.Memory {
			s += fmt.Sprintf(" %s numas %b", place.Quantity(b.Kind, b.Bytes), b.NUMAs)
		}
		for _, d := range h.Devices {
			s += " " + d.Resource + " " + strings.Join(d.IDs, ",")
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}
