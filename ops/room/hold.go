package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/component-helpers/scheduling/corev1"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// This file has the scheduler hold back successors whose places only the plan makes. Several of them would be created
// when not all of the pods are being deleted yet. Then a pod that waits does not fit by the scheduler's count, and a
// successor may take its room.

const (
	// holdSeconds is how long a successor is held back at most, from the request on.
	holdSeconds = 600
	// holdAtLeast is how much of that has to be left before the first of the pods is evicted. It is enough to compute the
	// plan again, to evict all pods, and for clocks that differ a little.
	holdAtLeast = 5 * time.Minute
	// holdAfter is how much has to be left after the last eviction, until the scheduler has seen that the pod is being
	// deleted.
	holdAfter = 30 * time.Second
	// While successors are held back, lostRoom reads the cluster every lookEvery. Reports of nodes may lag for lostAfter.
	lookEvery = 10 * time.Second
	lostAfter = 30 * time.Second
)

// holdBack asks once more for the places of the pods that are left, each on its node of the plan, and has the
// successors that had none wait until they have them. It returns the pods to evict now, or an error if the scheduler
// does not hold back their successors.
func (x *carrying) holdBack(ctx context.Context, have []move, none map[types.UID]string) ([]move, error) {
	if !x.hold {
		first, err := x.goalsFirst(ctx)
		if err != nil {
			return nil, err
		}
		if len(first) == 0 {
			return nil, x.tooMany(none)
		}
		x.hold, x.first, x.seated = true, map[string]string{}, map[types.UID]bool{}
		for _, m := range have {
			x.seated[m.UID] = true
		}
		if err := provisioning.SetFirst(x.first, first); err != nil {
			return nil, fmt.Errorf("the successors of %s cannot be held back until the pods that wait have their room: %w: "+
				"plan for fewer pods at a time, or for pods with shorter names, or evict them without places (--keep=false)",
				x.names(none), err)
		}
		return x.next(ctx) // the requests are made anew
	}
	lost := false
	for uid := range none {
		lost = lost || x.seated[uid]
		delete(x.seated, uid)
	}
	if lost {
		return x.next(ctx) // these wait as well
	}
	for _, why := range none {
		if !strings.Contains(why, provisioning.HeldBack) {
			return nil, x.tooMany(none)
		}
	}
	until, err := x.heldBack(ctx, none)
	if err != nil {
		return nil, err
	}
	if left := time.Until(until); left < holdAtLeast {
		return nil, fmt.Errorf("the scheduler holds back the successors of %s for %s only, less than %s: apply the plan "+
			"again, and compare this computer's clock with the API server's", x.names(none), max(left, 0).Round(time.Second),
			holdAtLeast)
	}
	x.heldUntil = until
	x.Say(fmt.Sprintf("no place is kept for the successors of %s: the scheduler holds them back until the pods that wait "+
		"have their room", x.names(none)))
	return slices.Clone(x.left), nil
}

// heldBack returns when the first of the successors without places is held back no longer; the zero time if one of them
// is not held back.
func (x *carrying) heldBack(ctx context.Context, none map[types.UID]string) (first time.Time, err error) {
	for _, m := range x.left {
		if _, lacks := none[m.UID]; !lacks {
			continue
		}
		r, err := x.requests.In(m.Namespace).Get(ctx, BookingName(m.UID), metav1.GetOptions{})
		if err != nil {
			return time.Time{}, fmt.Errorf("read ProvisioningRequest %s/%s: %w", m.Namespace, BookingName(m.UID), err)
		}
		until := r.HeldUntil()
		if r.Over() || until.IsZero() {
			return time.Time{}, nil
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	return first, nil
}

// evictWithin returns how long disruption budgets may refuse an eviction from now on. Where successors are held back,
// all pods have to be evicted before the first of them is not held back any more. It returns an error if that is too
// late already.
func (x *carrying) evictWithin() (time.Duration, error) {
	if x.heldUntil.IsZero() {
		return x.EvictWithin, nil
	}
	left := time.Until(x.heldUntil) - holdAfter
	if left <= 0 {
		return 0, errors.New("the successors of the pods to evict are not held back for long enough any more: apply the " +
			"plan again")
	}
	return min(x.EvictWithin, left), nil
}

// lostRoom returns an error if successors are held back, and the room of the waiting pods could not be confirmed for
// lostAfter. Without room those pods never get nodes, and the successors, which come after them, would wait in vain. To
// confirm it, lostRoom computes the plan again for the pods that have not left.
func (x *carrying) lostRoom(ctx context.Context) error {
	switch {
	case len(x.held) == 0:
		return nil
	case x.looked.IsZero():
		x.looked = time.Now() // the pods are only now being deleted
		return nil
	case time.Since(x.looked) < lookEvery:
		return nil
	}
	x.looked = time.Now()
	_, err := x.Again(ctx, movesOf(x.left))
	switch {
	case err == nil, ctx.Err() != nil:
		x.lost = time.Time{}
	case x.lost.IsZero():
		x.lost = x.looked
	case x.looked.Sub(x.lost) >= lostAfter:
		return fmt.Errorf("that the pods that wait still have the room that was made for them could not be confirmed "+
			"for %s: %w", x.looked.Sub(x.lost).Round(time.Second), err)
	}
	return nil
}

// goalsFirst returns the pods that wait for room if each of them has its turn before the successors, as the plan has
// it: none of them has a lower priority than a pod that is left. Otherwise it returns none.
func (x *carrying) goalsFirst(ctx context.Context) (out []provisioning.First, err error) {
	for _, g := range x.goals {
		p, err := x.core.Pods.In(g.Namespace).Get(ctx, g.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read pod %s: %w", g.NamespacedName, err)
		}
		if slices.ContainsFunc(x.left, func(m move) bool {
			return corev1.PodPriority(m.pod) > corev1.PodPriority(p)
		}) {
			return nil, nil
		}
		out = append(out, provisioning.First{NamespacedName: g.NamespacedName, UID: p.UID})
	}
	return out, nil
}

// names returns the names of the pods that are left and have no places.
func (x *carrying) names(none map[types.UID]string) string {
	var names []string
	for _, m := range x.left {
		if _, lacks := none[m.UID]; lacks {
			names = append(names, m.NamespacedName.String())
		}
	}
	return strings.Join(names, ", ")
}

// tooMany returns an error about pods whose successors would all have to get room that the plan makes.
func (x *carrying) tooMany(none map[types.UID]string) error {
	return fmt.Errorf("no place can be kept for the successors of %s, which have room only where the plan makes some, "+
		"and one of them could take the room of the pod that waits: plan with other pods, or evict them without places "+
		"(--keep=false)", x.names(none))
}
