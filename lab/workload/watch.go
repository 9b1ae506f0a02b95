package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Sleep waits for a time, or returns the cause of the context's end.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Fate is the outcome of a pod.
type Fate string

// The fates. Every failed pod counts as refused by its node's kubelet, because no container of the lab fails.
const (
	Waiting Fate = "waiting" // not settled yet
	Running Fate = "running"
	Refused Fate = "refused"
	Pending Fate = "pending" // the scheduler reports that it fits nowhere now
)

// FateOf returns the outcome of a pod so far, with the reason of a refusal or the scheduler's message for a pending
// pod. A pod that has succeeded counts as waiting.
func FateOf(p *v1.Pod) (Fate, string) {
	switch p.Status.Phase {
	case v1.PodRunning:
		return Running, ""
	case v1.PodFailed:
		return Refused, p.Status.Reason
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
			return Pending, c.Message
		}
	}
	return Waiting, ""
}

// Watch has the present pods of a cluster.
type Watch struct {
	mu      sync.Mutex
	pods    map[string]*v1.Pod // by UID
	changed chan struct{}      // closed and renewed at every change
	stop    func()
}

// Follow starts to follow all pods, or those that the options select, until Stop.
func Follow(ctx context.Context, client kubernetes.Interface,
	options ...informers.SharedInformerOption) (*Watch, error) {
	w := &Watch{pods: map[string]*v1.Pod{}, changed: make(chan struct{})}
	f := informers.NewSharedInformerFactoryWithOptions(client, 0, options...)
	pods := f.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.set(o, false) },
		UpdateFunc: func(_, o any) { w.set(o, false) },
		DeleteFunc: func(o any) { w.set(o, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("follow pods: %w", err)
	}
	stop := make(chan struct{})
	w.stop = sync.OnceFunc(func() { close(stop); f.Shutdown() })
	f.Start(stop)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		w.stop()
		return nil, fmt.Errorf("list pods: %w", context.Cause(ctx))
	}
	return w, nil
}

// Stop stops following.
func (w *Watch) Stop() { w.stop() }

func (w *Watch) set(o any, gone bool) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	p, ok := o.(*v1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone {
		delete(w.pods, string(p.UID))
	} else {
		w.pods[string(p.UID)] = p
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// Pods returns the present pods, sorted by name, and a channel that is closed at the next change.
func (w *Watch) Pods() ([]*v1.Pod, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*v1.Pod, 0, len(w.pods))
	for _, p := range w.pods {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int { return strings.Compare(a.Name+string(a.UID), b.Name+string(b.UID)) })
	return out, w.changed
}

// Until calls done with the pods, again at each change, until it returns true, and returns these pods. If the context
// ends first, the error has the number of pods with each fate.
func (w *Watch) Until(ctx context.Context, done func([]*v1.Pod) bool) ([]*v1.Pod, error) {
	for {
		pods, changed := w.Pods()
		if done(pods) {
			return pods, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return pods, fmt.Errorf("wait for pods (%s): %w", Count(pods), context.Cause(ctx))
		}
	}
}

// Quiet waits until look has returned the same text for the time that it returns with it, and returns the pods. Look is
// called at each change. The time begins anew whenever look returns a negative one.
func (w *Watch) Quiet(ctx context.Context, look func([]*v1.Pod) (text string, quiet time.Duration)) ([]*v1.Pod, error) {
	since, last := time.Now(), ""
	for {
		pods, changed := w.Pods()
		text, quiet := look(pods)
		if text != last || quiet < 0 {
			since, last = time.Now(), text
		}
		left := quiet - time.Since(since)
		if quiet < 0 {
			left = time.Minute // until a change
		} else if left <= 0 {
			return pods, nil
		}
		t := time.NewTimer(left)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return pods, fmt.Errorf("wait for rest (%s): %w", text, context.Cause(ctx))
		}
		t.Stop()
	}
}

// Settled returns a condition for [Watch.Until]: there are at least n pods, and none is waiting.
func Settled(n int) func([]*v1.Pod) bool {
	return func(pods []*v1.Pod) bool {
		for _, p := range pods {
			if f, _ := FateOf(p); f == Waiting {
				return false
			}
		}
		return len(pods) >= n
	}
}

// Create creates pods one after the other, as a user's kubectl would.
func Create(ctx context.Context, client kubernetes.Interface, pods ...*v1.Pod) error {
	for _, p := range pods {
		if _, err := client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// Clear deletes all pods of the default namespace and waits until they are gone.
func (w *Watch) Clear(ctx context.Context, client kubernetes.Interface) error {
	err := client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("delete pods: %w", err)
	}
	_, err = w.Until(ctx, func(pods []*v1.Pod) bool { return len(pods) == 0 })
	return err
}

// Count returns the number of pods with each fate, as text.
func Count(pods []*v1.Pod) string {
	n := map[Fate]int{}
	for _, p := range pods {
		f, _ := FateOf(p)
		n[f]++
	}
	return fmt.Sprintf("%d running, %d refused, %d pending, %d waiting", n[Running], n[Refused], n[Pending], n[Waiting])
}
