package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/scheduler/booking"
)

var _ cache.PreBinder = (*Scheduler)(nil)

// gang has the booked tasks of a job that Volcano commits together.
type gang struct {
	book    *ledger.Book
	timeout int32 // seconds
	members []*reservation
	once    sync.Once
	broken  error // why takeTurns failed, or nil
}

// takeTurns takes the turns of all members before the first one is bound, once per gang. If a member no longer fits,
// takeTurns ends all bookings and returns an error, so that no member is bound and the gang is tried again as a
// whole. A member that has to wait for an earlier pod, which may be another member, gets its turn later, in await.
func (g *gang) takeTurns() error {
	g.once.Do(func() {
		for _, b := range g.members {
			v, wait, err := g.book.Turn(b.UID, created(b.task.Pod))
			switch {
			case wait != nil:
			case err != nil:
				g.broken = fmt.Errorf("task %s of the same job has lost its place: %w", b.task.Name, err)
			case !v.Fits():
				g.broken = fmt.Errorf("task %s of the same job no longer fits: %w", b.task.Name, refusal(b.node, b.Pod, v))
			}
			if g.broken != nil {
				g.endBookings()
				return
			}
		}
	})
	return g.broken
}

// endBookings ends the bookings of all members, at a time when none is bound yet.
func (g *gang) endBookings() {
	for _, b := range g.members {
		g.book.Decline(b.UID)
	}
}

func created(pod *v1.Pod) int64 { return pod.CreationTimestamp.Unix() }

// PreBind waits for the task's turn on its node, so that the node admits pods in the order in which they were
// predicted. If PreBind fails, Volcano schedules the task anew, and does not call PreBindRollBack for it.
func (s *Scheduler) PreBind(ctx context.Context, bind *cache.BindContext) error {
	b, ok := bind.Extensions[Name].(*reservation)
	if !ok {
		return nil
	}
	if err := b.gang.takeTurns(); err != nil {
		return err
	}
	if err := s.await(ctx, b); err != nil {
		b.gang.book.Decline(b.UID)
		return err
	}
	return nil
}

// PreBindRollBack ends the booking of a task that could not be bound, once it is certain that the task is not bound.
func (s *Scheduler) PreBindRollBack(_ context.Context, bind *cache.BindContext) {
	if b, ok := bind.Extensions[Name].(*reservation); ok {
		s.turns.Failed(b.gang.book, b.task.Pod, b.node)
	}
}

// await waits for the task's turn, and returns an error if the task does not fit or the wait fails.
func (s *Scheduler) await(ctx context.Context, b *reservation) error {
	book, limit := b.gang.book, time.Duration(b.gang.timeout)*time.Second
	v, waited, err := s.turns.Await(ctx, book, s.counters, b.task.Pod, b.node, limit)
	switch {
	case err != nil:
		return err
	case !v.Fits():
		return fmt.Errorf("no longer fits: %w", refusal(b.node, b.Pod, v))
	case waited:
		return s.checkAmounts(b)
	}
	return nil
}

// checkAmounts returns an error if the node has too little of plain amounts since a task has waited for its turn.
func (s *Scheduler) checkAmounts(b *reservation) error {
	s.mu.Lock()
	amounts := s.amounts
	s.mu.Unlock()
	if why := booking.Short(amounts, b.gang.book, b.task.Pod, b.node); why != "" {
		return fmt.Errorf("node %s no longer fits: %s", b.node, why)
	}
	return nil
}
