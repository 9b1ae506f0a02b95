package room

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// This file keeps the same plan from being carried out twice at a time. A program that carries out a plan holds a Lease
// in the first namespace of the pods that move. A program that was killed leaves it behind; the next one takes it once
// it has not been renewed for a while.

const (
	leaseName = "tenon-defrag"
	// leaseFor is how long a Lease must not have changed before another program takes it, renewEvery how often its holder
	// renews it and how long a renewal may take, and loseAfter how long the holder goes on without a renewal.
	leaseFor   = 15 * time.Second
	renewEvery = 3 * time.Second
	loseAfter  = 10 * time.Second
)

var leaseResource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// errLost is the cause of the end of a context whose Lease was lost.
var errLost = errors.New("the Lease " + leaseName + " is lost")

// lease is a Lease that the program holds; in is nil for a plan without pods, which needs none.
type lease struct {
	in     dynamic.ResourceInterface
	object *unstructured.Unstructured
	// end ends the renewing, and waits until it has ended.
	end func()
}

// leases returns the Leases of the first namespace of a plan's pods, and its name; nil for a plan without pods. A plan
// that was begun has the same namespace as before.
func (c *Cluster) leases(p Plan) (dynamic.ResourceInterface, string) {
	var namespaces []string
	for _, m := range slices.Concat(p.Moves, p.Gone) {
		namespaces = append(namespaces, m.Namespace)
	}
	if len(namespaces) == 0 {
		return nil, ""
	}
	first := slices.Min(namespaces)
	return c.dynamic.Resource(leaseResource).Namespace(first), first
}

// hold takes the Lease of a plan, or returns an error if another program holds it. The context that it returns ends
// when the Lease is lost. The caller has to free the Lease.
func (c *Cluster) hold(ctx context.Context, p Plan, say func(string)) (context.Context, *lease, error) {
	in, namespace := c.leases(p)
	l := &lease{in: in, end: func() {}}
	if in == nil {
		return ctx, l, nil
	}
	if err := l.acquire(ctx, namespace, say); err != nil {
		return nil, nil, err
	}
	with, lose := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { l.renew(with, lose) })
	l.end = func() {
		lose(context.Canceled)
		renewing.Wait()
	}
	return with, l, nil
}

// free gives the Lease back, unless another program has taken it.
func (l *lease) free(ctx context.Context) {
	if l.end(); l.in == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), giveUpWithin)
	defer stop()
	uid, version := l.object.GetUID(), l.object.GetResourceVersion()
	// It expires by itself if this fails.
	_ = l.in.Delete(ctx, leaseName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid,
		ResourceVersion: &version}})
}

// taken reports whether another program has the Lease. Without an answer of the API server it is false.
func (l *lease) taken(ctx context.Context) bool {
	l.end()
	if l.in == nil {
		return false
	}
	now, err := l.in.Get(ctx, leaseName, metav1.GetOptions{})
	return err == nil && !l.same(now)
}

// same reports whether an object is the Lease as this program took it.
func (l *lease) same(o *unstructured.Unstructured) bool {
	if o.GetUID() != l.object.GetUID() {
		return false
	}
	for _, field := range []string{"holderIdentity", "acquireTime"} {
		now, _, _ := unstructured.NestedString(o.Object, "spec", field)
		if was, _, _ := unstructured.NestedString(l.object.Object, "spec", field); now != was {
			return false
		}
	}
	return true
}

// acquire takes the Lease, or returns an error if its holder renews it.
func (l *lease) acquire(ctx context.Context, namespace string, say func(string)) error {
	seen, since := "", time.Now()
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		now, err := l.in.Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			l.object, err = l.in.Create(ctx, newLease(), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return false, nil
			}
		} else if err == nil {
			switch version := now.GetResourceVersion(); {
			case seen == "":
				seen, since = version, time.Now()
				say(fmt.Sprintf("waiting whether %s still carries out a plan for pods of namespace %s", holder(now), namespace))
				return false, nil
			case version != seen:
				return false, fmt.Errorf("%s carries out a plan for pods of namespace %s: wait until it has ended", holder(now),
					namespace)
			case time.Since(since) < leaseFor:
				return false, nil
			}
			next := newLease()
			next.SetResourceVersion(seen)
			next.SetUID(now.GetUID())
			if l.object, err = l.in.Update(ctx, next, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
				seen = ""
				return false, nil
			}
		}
		if err != nil {
			return false, fmt.Errorf("take the Lease %s/%s: %w", namespace, leaseName, err)
		}
		return true, nil
	})
}

// renew renews the Lease until the context ends. It calls lose if another program has it, if the program may not renew
// it, or if it could not be renewed for loseAfter.
func (l *lease) renew(ctx context.Context, lose context.CancelCauseFunc) {
	late := time.AfterFunc(loseAfter, func() {
		lose(fmt.Errorf("%w: it could not be renewed for %s", errLost, loseAfter))
	})
	defer late.Stop()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		begun := time.Now()
		ctx, stop := context.WithTimeout(ctx, renewEvery)
		defer stop()
		err := l.update(ctx)
		switch {
		case err == nil:
			late.Reset(loseAfter - time.Since(begun))
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			lose(fmt.Errorf("%w: another program has taken it, or somebody has deleted it", errLost))
		case apierrors.IsForbidden(err):
			lose(fmt.Errorf("%w: it may not be renewed: %w", errLost, err))
		}
	}, renewEvery)
}

// update writes the time into the Lease. A conflict with an update of this program, whose answer did not come, is none.
func (l *lease) update(ctx context.Context) error {
	next := l.object.DeepCopy()
	now := metav1.NowMicro().UTC().Format(metav1.RFC3339Micro)
	if err := unstructured.SetNestedField(next.Object, now, "spec", "renewTime"); err != nil {
		return err
	}
	got, err := l.in.Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		now, failed := l.in.Get(ctx, leaseName, metav1.GetOptions{})
		if failed != nil {
			return failed
		}
		if l.same(now) {
			got, err = now, nil
		}
	}
	if err == nil {
		l.object = got
	}
	return err
}

// newLease returns a Lease of this program.
func newLease() *unstructured.Unstructured {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	who, seconds, now := fmt.Sprintf("%s, process %d", host, os.Getpid()), int32(leaseFor.Seconds()), metav1.NowMicro()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: leaseName, Labels: map[string]string{managedBy: manager}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, AcquireTime: &now,
			RenewTime: &now}})
	if err != nil {
		panic(fmt.Sprintf("a Lease cannot be written: %v", err)) // cannot happen: the type is known
	}
	return &unstructured.Unstructured{Object: object}
}

// holder returns the holder of a Lease for people.
func holder(l *unstructured.Unstructured) string {
	who, _, _ := unstructured.NestedString(l.Object, "spec", "holderIdentity")
	if who == "" {
		return "another program"
	}
	return fmt.Sprintf("another program (%.80q)", who)
}

// mayHold returns an error if the API server would refuse the Lease of a plan.
func (c *Cluster) mayHold(ctx context.Context, p Plan) error {
	in, namespace := c.leases(p)
	if in == nil {
		return nil
	}
	if err := mayTake(ctx, in); err != nil {
		return fmt.Errorf("nothing was changed, since you may not take the Lease %s/%s: %w", namespace, leaseName, err)
	}
	return nil
}

// mayTake tries to create, update and delete the Lease as dry runs. It returns an error if the user may not, and none
// for whatever state the Lease is in.
func mayTake(ctx context.Context, in dynamic.ResourceInterface) error {
	try := dry(true)
	_, err := in.Create(ctx, newLease(), metav1.CreateOptions{DryRun: try})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create: %w", err)
	}
	stateOnly := func(err error) bool { return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
	// No Lease has this UID, so the API server refuses what the user may do as a conflict.
	none, next := types.UID("none"), newLease()
	next.SetUID(none)
	next.SetResourceVersion("1")
	if _, err := in.Update(ctx, next, metav1.UpdateOptions{DryRun: try}); !stateOnly(err) {
		return fmt.Errorf("update: %w", err)
	}
	if err := in.Delete(ctx, leaseName, metav1.DeleteOptions{DryRun: try,
		Preconditions: &metav1.Preconditions{UID: &none}}); !stateOnly(err) {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}
