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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// This file keeps the same plan from being carried out twice at a time. A program that carries out a plan holds a Lease
// in the first namespace of the pods that move. A program that was killed leaves it behind; the next one takes it once
// it has not been renewed for a while.

const (
	leaseName = "tenon-defrag"
	// leaseFor is how long a Lease must not have changed before another program takes it, renewEvery how often its holder
	// renews it, and loseAfter how long the holder goes on if it cannot.
	leaseFor   = 15 * time.Second
	renewEvery = 3 * time.Second
	loseAfter  = 10 * time.Second
)

var leaseResource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// errLost is the cause of the end of a context whose Lease was lost.
var errLost = errors.New("the Lease " + leaseName + " is lost")

// lease is a Lease that the program holds.
type lease struct {
	in     dynamic.ResourceInterface
	object *unstructured.Unstructured
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

// hold takes the Lease of a plan. It returns a context that ends when the Lease is lost, and a function that gives the
// Lease back, or an error if another program holds it.
func (c *Cluster) hold(ctx context.Context, p Plan, say func(string)) (context.Context, func(), error) {
	in, namespace := c.leases(p)
	if in == nil {
		return ctx, func() {}, nil
	}
	l := &lease{in: in}
	if err := l.acquire(ctx, namespace, say); err != nil {
		return nil, nil, err
	}
	with, lose := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { l.renew(with, lose) })
	return with, func() {
		lose(context.Canceled)
		renewing.Wait()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), giveUpWithin)
		defer stop()
		uid, version := l.object.GetUID(), l.object.GetResourceVersion()
		// It expires by itself if this fails.
		_ = in.Delete(ctx, leaseName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid,
			ResourceVersion: &version}})
	}, nil
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

// renew renews the Lease until the context ends. It calls lose if another program has it, or if it cannot be renewed.
func (l *lease) renew(ctx context.Context, lose context.CancelCauseFunc) {
	last := time.Now()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		next := l.object.DeepCopy()
		_ = unstructured.SetNestedField(next.Object, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro), "spec", "renewTime")
		got, err := l.in.Update(ctx, next, metav1.UpdateOptions{})
		switch {
		case err == nil:
			l.object, last = got, time.Now()
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			lose(fmt.Errorf("%w: another program has taken it", errLost))
		case time.Since(last) > loseAfter:
			lose(fmt.Errorf("%w: it could not be renewed: %w", errLost, err))
		}
	}, renewEvery)
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
	_, err := in.Create(ctx, newLease(), metav1.CreateOptions{DryRun: dry(true)})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("nothing was changed, since you may not take the Lease %s/%s: %w", namespace, leaseName, err)
	}
	return nil
}
