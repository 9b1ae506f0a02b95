package lab_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/lab"
)

// BenchmarkPublishWrites starts pods on several nodes and deletes them, repeatedly. It reports how many writes of which
// kind the API server had for each pod, and how large the objects were as JSON: when each pod comes to its node alone,
// and when ten come at once. The pods are created with a node, so the writes of a scheduler are missing: a binding and
// an event.
func BenchmarkPublishWrites(b *testing.B) {
	b.Run("alone", func(b *testing.B) { benchmarkWrites(b, 1) })
	b.Run("together", func(b *testing.B) { benchmarkWrites(b, latencyPods) })
}

func benchmarkWrites(b *testing.B, each int) {
	ctx, c, user, nodes := publishing(b)
	published := newClock()
	published.watchLayouts(ctx, b, c)
	seen := newTally()
	for _, r := range []schema.GroupVersionResource{
		v1alpha1.NodeLayoutResource(),
		{Group: "topology.node.k8s.io", Version: "v1alpha2", Resource: "noderesourcetopologies"},
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "events"},
	} {
		seen.watch(ctx, b, c, r)
	}
	for round := 0; b.Loop(); round++ {
		for uid := range startPods(ctx, b, user, nodes, round, each) {
			published.await(ctx, b, uid)
		}
		if err := user.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{}); err != nil {
			b.Fatal(err)
		}
		published.awaitGone(ctx, b)
		seen.awaitGone(ctx, b)
	}
	seen.report(b, b.N*latencyNodes*each)
	b.ReportMetric(0, "ns/op") // a round has the kubelets' own time in it
}

// tally counts writes by resource.
type tally struct {
	mu            sync.Mutex
	writes, bytes map[string]int
	pods          map[string]bool
	change        chan struct{}
}

func newTally() *tally {
	return &tally{writes: map[string]int{}, bytes: map[string]int{}, pods: map[string]bool{},
		change: make(chan struct{}, 1)}
}

// watch counts from now on; existing objects are no writes.
func (t *tally) watch(ctx context.Context, b *testing.B, c *lab.Cluster, r schema.GroupVersionResource) {
	b.Helper()
	all, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	list, err := all.Resource(r).List(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	w, err := all.Resource(r).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			if u, ok := e.Object.(*unstructured.Unstructured); ok {
				t.saw(r.Resource, e.Type, u)
			}
		}
	}()
}

func (t *tally) saw(resource string, what watch.EventType, u *unstructured.Unstructured) {
	data, err := json.Marshal(u)
	if err != nil {
		return // it came as JSON
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes[resource]++
	t.bytes[resource] += len(data)
	if resource == "pods" {
		t.pods[string(u.GetUID())] = what != watch.Deleted
	}
	select {
	case t.change <- struct{}{}:
	default:
	}
}

// awaitGone waits until all pods that were seen are deleted.
func (t *tally) awaitGone(ctx context.Context, b *testing.B) {
	b.Helper()
	for {
		t.mu.Lock()
		left := 0
		for _, there := range t.pods {
			if there {
				left++
			}
		}
		t.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-t.change:
		case <-ctx.Done():
			b.Fatalf("%d pods are still there: %v", left, context.Cause(ctx))
		}
	}
}

func (t *tally) report(b *testing.B, pods int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for name := range t.writes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.ReportMetric(float64(t.writes[name])/float64(pods), name+"/pod")
		b.ReportMetric(float64(t.bytes[name])/float64(t.writes[name]), name+"-bytes")
	}
}
