package whole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// binding is the binding of a pod to a node.
type binding struct {
	pod  types.UID
	node string
	at   time.Time // when this process received it
}

// follower records pods that are created after it has started.
type follower struct {
	mu       sync.Mutex
	pods     map[types.UID]*v1.Pod // in their present state
	bindings []binding             // in the order of the API server
	settled  map[types.UID]bool    // pods that their nodes run or have refused
	last     time.Time             // when the last pod was settled
	err      error                 // why recording has stopped
	stop     func()
}

// follow starts to record. The caller calls stop or end.
func follow(ctx context.Context, c kubernetes.Interface) (*follower, error) {
	list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := watchPods(ctx, c, list.ResourceVersion, "")
	if err != nil {
		cancel()
		return nil, err
	}
	f := &follower{pods: map[types.UID]*v1.Pod{}, settled: map[types.UID]bool{}}
	ended := make(chan struct{})
	f.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		err := errors.New("the watch of pods has ended")
		for e := range w.ResultChan() {
			if e.Type == watch.Error {
				err = fmt.Errorf("watch pods: %w", apierrors.FromObject(e.Object))
				break
			}
			f.processEvent(e)
		}
		f.mu.Lock()
		f.err = err
		f.mu.Unlock()
	}()
	return f, nil
}

// processEvent records an event of a pod. It records a binding only if an earlier event had the pod without a node.
func (f *follower) processEvent(e watch.Event) {
	pod, ok := e.Object.(*v1.Pod)
	if !ok || e.Type == watch.Bookmark {
		return
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.pods[pod.UID]; pod.Spec.NodeName != "" && before != nil && before.Spec.NodeName == "" {
		f.bindings = append(f.bindings, binding{pod.UID, pod.Spec.NodeName, now})
	}
	if !f.settled[pod.UID] && (pod.Status.Phase == v1.PodRunning || pod.Status.Phase == v1.PodFailed) {
		f.settled[pod.UID], f.last = true, now
	}
	f.pods[pod.UID] = pod
}

// allSettled reports whether every bound pod was admitted or refused by its node. It also returns how many pods were
// settled, when the last one was, and why recording has stopped, if it has.
func (f *follower) allSettled() (all bool, settled int, last time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.settled) >= len(f.bindings), len(f.settled), f.last, f.err
}

// countBound returns the number of bound pods.
func (f *follower) countBound() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.bindings), f.err
}

// allBindings returns the bindings so far, in their order.
func (f *follower) allBindings() []binding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.bindings)
}

// finish stops following, and returns the pods by UID and the bindings in their order.
func (f *follower) finish() (map[types.UID]*v1.Pod, []binding) {
	f.stop()
	return f.pods, f.bindings
}

// waitingReasons counts the pods without a node by their scheduler's message, most frequent first.
func waitingReasons(pods map[types.UID]*v1.Pod) (out []Why) {
	count := map[string]int{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			continue
		}
		why := "not tried yet"
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				why = gist(c.Message)
			}
		}
		count[why]++
	}
	for _, why := range slices.Sorted(maps.Keys(count)) {
		out = append(out, Why{why, count[why]})
	}
	slices.SortStableFunc(out, func(a, b Why) int { return cmp.Compare(b.Pods, a.Pods) })
	return out
}

// Why is a reason, with a number of pods.
type Why struct {
	Text string
	Pods int
}

// gist returns a scheduler's message about nodes without its numbers, which differ from pod to pod.
func gist(message string) string {
	_, rest, ok := strings.Cut(message, "nodes are available: ")
	if !ok {
		return firstWords(message)
	}
	rest, _, _ = strings.Cut(rest, ". ")
	rest = strings.TrimSuffix(rest, ".")
	seen := map[string]bool{}
	for part := range strings.SplitSeq(rest, ", ") {
		part = strings.TrimLeft(part, "0123456789 ")
		if part, _, _ = strings.Cut(part, " ("); part != "" {
			seen[strings.TrimSpace(withoutNames(part))] = true
		}
	}
	return firstWords(strings.Join(slices.Sorted(maps.Keys(seen)), ", "))
}

// withoutNames drops quoted texts.
func withoutNames(s string) string {
	parts := strings.Split(s, `"`)
	var out []string
	for i := 0; i < len(parts); i += 2 {
		out = append(out, strings.TrimSpace(parts[i]))
	}
	return strings.Join(out, " ")
}

func firstWords(s string) string {
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return s
}
