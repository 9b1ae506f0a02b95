package room

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// answers are what the API server answers about the Lease. now is the Lease that it has.
type answers struct {
	dynamic.ResourceInterface

	now    *unstructured.Unstructured
	update func(ctx context.Context, l *unstructured.Unstructured) error
	remove error
}

func (a *answers) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	if a.now == nil {
		return nil, apierrors.NewNotFound(leaseResource.GroupResource(), leaseName)
	}
	return a.now, nil
}

func (a *answers) Create(context.Context, *unstructured.Unstructured, metav1.CreateOptions,
	...string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewAlreadyExists(leaseResource.GroupResource(), leaseName)
}

func (a *answers) Update(ctx context.Context, l *unstructured.Unstructured, _ metav1.UpdateOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	return l, a.update(ctx, l)
}

func (a *answers) Delete(context.Context, string, metav1.DeleteOptions, ...string) error {
	return a.remove
}

var (
	forbidden = apierrors.NewForbidden(leaseResource.GroupResource(), leaseName, nil)
	conflict  = apierrors.NewConflict(leaseResource.GroupResource(), leaseName, nil)
)

// A program loses its Lease when another program has it, and in time before another one may take it.
func TestWhenALeaseIsLost(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		update func(ctx context.Context, n int) error // of the n-th renewal
		taken  bool                                   // by another program
		gone   bool
		after  time.Duration // 0 if it is not lost
	}{
		"it is renewed":      {update: func(context.Context, int) error { return nil }},
		"renewals hang":      {update: func(ctx context.Context, _ int) error { return hang(ctx) }, after: loseAfter},
		"they begin to hang": {update: after(3, hang), after: renewEvery + loseAfter},
		"one of them hangs": {update: func(ctx context.Context, n int) error {
			if n == 2 {
				return hang(ctx)
			}
			return nil
		}},
		"it may not be renewed": {update: after(2, func(context.Context) error { return forbidden }), after: renewEvery},
		"the answer to an update was lost": {update: func(_ context.Context, n int) error {
			if n == 2 {
				return conflict
			}
			return nil
		}},
		"another program has it": {update: after(2, func(context.Context) error { return conflict }), taken: true,
			after: renewEvery},
		"it is deleted": {update: after(2, func(context.Context) error { return conflict }), gone: true,
			after: renewEvery},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &lease{object: newLease()}
			a, n := &answers{now: l.object}, 0
			a.update = func(ctx context.Context, _ *unstructured.Unstructured) error {
				n++
				return c.update(ctx, n)
			}
			if l.in = a; c.taken {
				time.Sleep(time.Millisecond) // it takes the Lease at another time
				a.now = newLease()
			} else if c.gone {
				a.now = nil
			}
			ctx, lose := context.WithCancelCause(t.Context())
			begun := time.Now()
			go l.renew(ctx, lose)
			select {
			case <-ctx.Done():
				if took := time.Since(begun); took != c.after || !errors.Is(context.Cause(ctx), errLost) {
					t.Errorf("%s: lost after %s, want %s: %v", name, took, c.after, context.Cause(ctx))
				}
			case <-time.After(time.Minute):
				if c.after != 0 {
					t.Errorf("%s: not lost", name)
				}
			}
			lose(nil)
			synctest.Wait()
			if l.end = func() {}; l.taken(t.Context()) != c.taken {
				t.Errorf("%s: another program has it: %t", name, !c.taken)
			}
		})
	}
}

// after returns nil for the renewals before the n-th one.
func after(n int, then func(context.Context) error) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		if i < n {
			return nil
		}
		return then(ctx)
	}
}

// Nothing is begun without the rights that the Lease takes, whichever state it is in.
func TestRightsToALease(t *testing.T) {
	for name, c := range map[string]struct {
		update, remove error
		want           bool
	}{
		"all":       {conflict, conflict, true},
		"no Lease":  {conflict, apierrors.NewNotFound(leaseResource.GroupResource(), leaseName), true},
		"no update": {forbidden, conflict, false},
		"no delete": {conflict, forbidden, false},
	} {
		a := &answers{update: func(context.Context, *unstructured.Unstructured) error { return c.update }, remove: c.remove}
		if err := mayTake(t.Context(), a); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What killed programs leave behind is abandoned, and what others have made, or keep places for, is not.
func TestAbandonedRequests(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		name, condition string
		age             time.Duration
		want            bool
	}{
		"over":                {"tenon-move-x", provisioning.BookingExpired, time.Minute, true},
		"over, of others":     {"mine", provisioning.BookingExpired, time.Minute, false},
		"new":                 {"tenon-move-x", "", time.Minute, false},
		"old":                 {"tenon-move-x", "", 3 * time.Hour, true},
		"old, of others":      {"mine", "", 3 * time.Hour, false},
		"old, keeps a place":  {"tenon-move-x", provisioning.Provisioned, 3 * time.Hour, false},
		"old, only an answer": {"tenon-move-x", provisioning.Accepted, 3 * time.Hour, true},
	} {
		r := &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: c.name,
			CreationTimestamp: metav1.NewTime(now.Add(-c.age))}}
		if c.condition != "" {
			r.Status.Conditions = []metav1.Condition{{Type: c.condition, Status: metav1.ConditionTrue}}
		}
		if got := abandoned(r, now); got != c.want {
			t.Errorf("%s: abandoned %t", name, got)
		}
	}
}
