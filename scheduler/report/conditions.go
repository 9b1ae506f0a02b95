package report

import (
	"context"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
)

// Conditions writes the conditions of layouts: Accepted for every layout; Exact for accepted layouts; and Aligned for
// nodes whose kubelet leaves resources unaligned, or has left some unaligned before. It writes when a layout is new
// and when its conditions change.
type Conditions struct {
	// queue makes the queue of nodes at its first call. A queue has goroutines, which only the end of Run ends.
	queue  func() workqueue.TypedRateLimitingInterface[string]
	logger klog.Logger
	// inexact returns why predictions for a node may differ, according to the ledger.
	inexact func(node string) []state.Inexact
	// busy reports whether pods are being scheduled.
	busy func() bool
}

// NewConditions returns a Conditions that writes once Run is called. inexact returns why predictions for a node may
// differ. While busy returns true, conditions are written slowly; nil is never busy.
func NewConditions(logger klog.Logger, inexact func(node string) []state.Inexact, busy func() bool) *Conditions {
	if busy == nil {
		busy = func() bool { return false }
	}
	queue := func() workqueue.TypedRateLimitingInterface[string] {
		return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	}
	return &Conditions{logger: logger, inexact: inexact, busy: busy, queue: sync.OnceValue(queue)}
}

// Later writes the conditions of a layout after a second, so that further changes are written together.
func (c *Conditions) Later(node string) { c.queue().AddAfter(node, time.Second) }

// Judged returns a callback that is to be called for every layout that was read, with the reason if it was rejected.
// The callback queues the conditions to be written, and passes errors on to next.
func (c *Conditions) Judged(next func(node string, err error)) func(node string, err error) {
	return func(node string, err error) {
		if err != nil {
			next(node, err)
		}
		c.queue().Add(node)
	}
}

// writes is the number of conditions that may be written per second, and burst how many of these at once. In a new
// cluster, the conditions of all layouts are written once. While pods are scheduled, writesBusy replaces writes,
// because bindings need the API server more.
const (
	writes     = 50
	writesBusy = 1
	burst      = 1
)

// Run writes conditions until the context ends.
func (c *Conditions) Run(ctx context.Context, w *client.Client) {
	fast := flowcontrol.NewTokenBucketRateLimiter(writes, burst)
	slow := flowcontrol.NewTokenBucketRateLimiter(writesBusy, burst)
	queue := c.queue()
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	for {
		node, quit := queue.Get()
		if quit {
			return
		}
		pace := fast
		if c.busy() {
			pace = slow
		}
		_ = pace.Wait(ctx) // it fails only when the context has ended, and then the write fails, too
		if err := write(ctx, w, node, c.inexact(node)); err != nil && ctx.Err() == nil {
			c.logger.V(2).Info("Condition of a layout not written, will try again", "node", node, "error", err.Error())
			queue.AddRateLimited(node)
		} else {
			queue.Forget(node)
		}
		queue.Done(node)
	}
}

// write sets the conditions of the node's layout at the API server, which may be newer than the one that was queued.
// It does nothing if the layout does not exist or its conditions are right.
func write(ctx context.Context, w *client.Client, node string, reasons []state.Inexact) error {
	l, err := w.Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !setConditions(l, reasons) {
		return nil
	}
	_, err = w.UpdateStatus(ctx, l, metav1.UpdateOptions{FieldManager: "tenon-scheduler"})
	return err
}

// setConditions sets the conditions in a layout, and reports whether they have changed. reasons are the reasons why
// predictions for the node may be wrong.
func setConditions(l *v1alpha1.NodeLayout, reasons []state.Inexact) (changed bool) {
	set := func(c metav1.Condition) {
		c.ObservedGeneration = l.Generation
		changed = meta.SetStatusCondition(&l.Status.Conditions, c) || changed
	}
	core, err := l.Core()
	if err != nil {
		set(metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "Malformed",
			Message: printable.Clip(printable.Text(err.Error()), maxNote)})
		// No predictions are made from a malformed layout.
		changed = meta.RemoveStatusCondition(&l.Status.Conditions, v1alpha1.ConditionExact) || changed
		return meta.RemoveStatusCondition(&l.Status.Conditions, v1alpha1.ConditionAligned) || changed
	}
	set(metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Understood"})
	set(exactness(reasons))
	forgotten := core.Rules.Forgotten(core.Machine)
	if len(forgotten) > 0 || meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionAligned) != nil {
		set(alignment(forgotten))
	}
	return changed
}

// alignment returns the condition Aligned. forgotten are the resources that the kubelet leaves unaligned.
func alignment(forgotten []place.Unaligned) metav1.Condition {
	if len(forgotten) == 0 {
		return metav1.Condition{Type: v1alpha1.ConditionAligned, Status: metav1.ConditionTrue, Reason: "PoliciesSet"}
	}
	var texts []string
	for _, u := range forgotten {
		texts = append(texts, u.Text())
	}
	return metav1.Condition{Type: v1alpha1.ConditionAligned, Status: metav1.ConditionFalse, Reason: "PolicyMissing",
		Message: printable.Clip(strings.Join(texts, "; "), maxNote)}
}

// exactness returns the condition Exact. reasons are the reasons why predictions may be wrong.
func exactness(reasons []state.Inexact) metav1.Condition {
	if len(reasons) == 0 {
		return metav1.Condition{Type: v1alpha1.ConditionExact, Status: metav1.ConditionTrue, Reason: "NoReasonToDoubt"}
	}
	return metav1.Condition{Type: v1alpha1.ConditionExact, Status: metav1.ConditionFalse, Reason: "Inexact",
		Message: printable.Clip(printable.Text(messages(reasons)), maxNote)}
}
