package install_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tenon-numa/tenon/lab/workload"
)

// churn are pods that come and go.
type churn struct {
	cancel  context.CancelFunc
	done    chan struct{}
	ended   int      // pods that ran
	refused []string // by the kubelet
	err     error
}

// begin creates and deletes pods until the churn is ended.
func (w *world) begin(ctx context.Context) *churn {
	ctx, cancel := context.WithCancel(ctx)
	c := &churn{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for i := 0; ctx.Err() == nil && c.err == nil; i++ {
			c.err = c.round(context.WithoutCancel(ctx), w, i)
		}
	}()
	return c
}

// round creates pods, waits until they have ended, and deletes them.
func (c *churn) round(ctx context.Context, w *world, i int) error {
	pods := []*v1.Pod{
		pod(fmt.Sprintf("come-%d-a", i), true, guaranteed("1")), pod(fmt.Sprintf("come-%d-b", i), true, guaranteed("2")),
	}
	if err := workload.Create(ctx, w.client, pods...); err != nil {
		return err
	}
	seen, err := w.pods.Until(ctx, func(all []*v1.Pod) bool {
		n := 0
		for _, p := range all {
			if strings.HasPrefix(p.Name, "come-") && (p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed) {
				n++
			}
		}
		return n == len(pods)
	})
	if err != nil {
		return err
	}
	for _, p := range seen {
		if !strings.HasPrefix(p.Name, "come-") {
			continue
		}
		if p.Status.Phase == v1.PodFailed {
			c.refused = append(c.refused, p.Name+": "+p.Status.Reason+": "+p.Status.Message)
		} else {
			c.ended++
		}
		if err := w.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete pod %s: %w", p.Name, err)
		}
	}
	_, err = w.pods.Until(ctx, func(all []*v1.Pod) bool {
		return !slices.ContainsFunc(all, func(p *v1.Pod) bool { return strings.HasPrefix(p.Name, "come-") })
	})
	return err
}

// end ends the churn, and fails if a kubelet has refused a pod.
func (c *churn) end(t *testing.T) {
	t.Helper()
	c.cancel()
	<-c.done
	if c.err != nil {
		t.Error(c.err)
	}
	for _, r := range c.refused {
		t.Errorf("refused: %s", r)
	}
	t.Logf("%d pods came and went, %d were refused", c.ended, len(c.refused))
}

// leaders records the holders of the scheduler's lease, and when pods are bound.
type leaders struct {
	terms []term
	bound map[string]uint64 // when each pod was bound: a version of the store
	stop  []func()
	done  sync.WaitGroup
}

// term begins when a scheduler writes itself into the lease.
type term struct {
	begins uint64 // a version of the store
	holder string
}

// follow records leaders and bindings, from now on.
func (w *world) follow(ctx context.Context, t *testing.T) *leaders {
	t.Helper()
	l := &leaders{bound: map[string]uint64{}}
	leases := w.client.CoordinationV1().Leases("tenon-system")
	now, err := leases.Get(ctx, "tenon-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.hold(now)
	lease, err := leases.Watch(ctx, metav1.SingleObject(now.ObjectMeta))
	if err != nil {
		t.Fatal(err)
	}
	l.each(lease, func(e watch.Event) {
		if lease, ok := e.Object.(*coordinationv1.Lease); ok {
			l.hold(lease)
		}
	})
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.each(pods, func(e watch.Event) {
		if p, ok := e.Object.(*v1.Pod); ok && p.Spec.NodeName != "" && l.bound[p.Name] == 0 {
			l.bound[p.Name] = version(p.ResourceVersion)
		}
	})
	return l
}

// each calls a function for each event of a watch, until the leaders are checked.
func (l *leaders) each(events watch.Interface, do func(watch.Event)) {
	l.stop = append(l.stop, events.Stop)
	l.done.Go(func() {
		for e := range events.ResultChan() {
			do(e)
		}
	})
}

func (l *leaders) hold(lease *coordinationv1.Lease) {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	if n := len(l.terms); n > 0 && l.terms[n-1].holder == holder {
		return
	}
	l.terms = append(l.terms, term{version(lease.ResourceVersion), holder})
}

func version(text string) uint64 {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err) // the API server's are numbers
	}
	return v
}

// check fails if a scheduler bound a pod without holding the lease. Leases and pods are versions of one store, so their
// order is certain; a pod's event names the scheduler that bound it.
func (l *leaders) check(ctx context.Context, t *testing.T, w *world) {
	t.Helper()
	for _, stop := range l.stop {
		stop()
	}
	l.done.Wait()
	events, err := w.client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]int{}
	for _, e := range events.Items {
		at := l.bound[e.InvolvedObject.Name]
		if e.Reason != "Scheduled" || e.ReportingController != "tenon-scheduler" || at < l.terms[0].begins {
			continue
		}
		by := strings.TrimPrefix(e.ReportingInstance, e.ReportingController+"-")
		bound[by]++
		i := len(l.terms) - 1
		for l.terms[i].begins > at {
			i--
		}
		if !strings.HasPrefix(l.terms[i].holder, by+"_") {
			t.Errorf("pod %s was bound by %s while %q held the lease", e.InvolvedObject.Name, by, l.terms[i].holder)
		}
	}
	t.Logf("the lease changed %d times; pods bound by each scheduler: %v", len(l.terms)-1, bound)
	if len(bound) < 2 {
		t.Error("the leader has not changed")
	}
}
