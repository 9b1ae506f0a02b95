package sched

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
)

// conditions writes the condition of layouts that are refused, and takes it back when they are mended.
// Layouts that were never refused are not written to.
type conditions struct {
	queue  workqueue.TypedRateLimitingInterface[string]
	logger klog.Logger
}

func newConditions(logger klog.Logger) *conditions {
	return &conditions{logger: logger, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[string]())}
}

// judged returns the callback for refused layouts, which also does what next says.
func (c *conditions) judged(next func(node string, err error)) func(node string, err error) {
	return func(node string, err error) {
		if err != nil {
			next(node, err)
		}
		c.queue.Add(node)
	}
}

func (c *conditions) run(ctx context.Context, w *client.Client) {
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	for {
		node, quit := c.queue.Get()
		if quit {
			return
		}
		if err := write(ctx, w, node); err != nil && ctx.Err() == nil {
			c.logger.V(2).Info("Condition of a layout not written, will try again", "node", node, "error", err.Error())
			c.queue.AddRateLimited(node)
		} else {
			c.queue.Forget(node)
		}
		c.queue.Done(node)
	}
}

// write judges the layout as it is now, not as it was when it was queued.
func write(ctx context.Context, w *client.Client, node string) error {
	l, err := w.Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	want := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Understood", ObservedGeneration: l.Generation}
	if _, err := l.Core(); err != nil {
		want.Status, want.Reason, want.Message = metav1.ConditionFalse, "Malformed", err.Error()
	}
	if !meta.SetStatusCondition(&l.Status.Conditions, want) {
		return nil
	}
	_, err = w.UpdateStatus(ctx, l, metav1.UpdateOptions{FieldManager: "tenon-scheduler"})
	return err
}
