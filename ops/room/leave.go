package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenon-numa/tenon/ops/evict"
)

// This file evicts pods.

// evict evicts pods at the same time, or one after the other if the caller evicts them, and returns the pods that it
// has evicted. While a disruption budget refuses one, it asks again. Pods that are gone already stay out of the result:
// nothing has to be created for them.
func (x *carrying) evict(ctx context.Context, now []move) (gone []move, err error) {
	if x.hold || inGangs(now) {
		if err := x.evictable(ctx, now); err != nil {
			return nil, err
		}
	}
	within, err := x.evictWithin()
	if err != nil {
		return nil, err
	}
	todo := slices.Clone(now)
	err = x.until(ctx, within, func(ctx context.Context) (bool, string, error) {
		errs := make([]error, len(todo))
		var all sync.WaitGroup
		for i, m := range todo {
			if x.Evict == nil {
				all.Go(func() { errs[i] = evict.Pod(ctx, x.dynamic, m.pod) })
			} else if i == 0 || errs[i-1] == nil {
				errs[i] = x.leave(ctx, m.pod)
			} else {
				errs[i] = errs[i-1] // nothing more is evicted after an error
			}
		}
		all.Wait()
		var again []move
		why := ""
		var failed error
		for i, m := range todo {
			switch err := errs[i]; {
			case err == nil:
				x.Say("pod " + m.NamespacedName.String() + " is evicted from " + m.From)
				if x.hold {
					x.held = append(x.held, m)
				}
				gone, x.leaving, x.evicted = append(gone, m), append(x.leaving, m.Move), x.evicted+1
			case apierrors.IsNotFound(err), apierrors.IsConflict(err):
				x.Say("pod " + m.NamespacedName.String() + " was gone already")
				failed = errors.Join(failed, x.release(ctx, m))
			case refusedNow(err):
				again, why = append(again, m), fmt.Sprintf("pod %s: %v", m.NamespacedName, err)
				continue
			default:
				failed = errors.Join(failed, fmt.Errorf("evict pod %s: %w", m.NamespacedName, err))
				continue
			}
			x.left = slices.DeleteFunc(x.left, func(o move) bool { return o.UID == m.UID })
		}
		if todo = again; failed != nil {
			return false, "", failed
		}
		return len(todo) == 0, why, x.name(ctx)
	})
	return gone, err
}

// refusedNow reports whether an eviction may succeed later.
func refusedNow(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err)
}

// evictable waits until the API server would accept the eviction of each pod by itself. It evicts none.
func (x *carrying) evictable(ctx context.Context, pods []move) error {
	within, err := x.evictWithin()
	if err != nil {
		return err
	}
	return x.until(ctx, within, func(ctx context.Context) (bool, string, error) {
		for _, m := range pods {
			switch err := evict.Try(ctx, x.dynamic, m.pod); {
			case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
			case refusedNow(err):
				return false, fmt.Sprintf("pod %s: %v", m.NamespacedName, err), x.name(ctx)
			default:
				return false, "", fmt.Errorf("evict pod %s: %w", m.NamespacedName, err)
			}
		}
		return true, "", nil
	})
}

// leave has the caller evict a pod.
func (x *carrying) leave(ctx context.Context, p *v1.Pod) error {
	if err := evict.Try(ctx, x.dynamic, p); err != nil {
		return err
	}
	return x.Evict(ctx, p)
}
