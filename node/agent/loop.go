package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
)

// The pace of the loop. One admission writes two or three state files within a few milliseconds. So a reconcile waits
// until the files were at rest for settle, though never longer than maxSettle. The kubelet answers at most 100
// podresources requests per second (pkg/kubelet/apis/grpc). One reconcile makes two, so observeInterval leaves room
// for other clients. After a failure the loop retries after firstRetry; the pause doubles with each further failure,
// up to lastRetry.
const (
	settle          = 8 * time.Millisecond
	maxSettle       = 25 * time.Millisecond
	observeInterval = 50 * time.Millisecond
	firstRetry      = 100 * time.Millisecond
	lastRetry       = 10 * time.Second
)

// triggers collects the requests for a reconcile since the last reconcile began. Its methods may be called from any
// goroutine, and return at once.
type triggers struct {
	partial, full chan struct{}
}

func newTriggers() *triggers { return &triggers{make(chan struct{}, 1), make(chan struct{}, 1)} }

// holdings triggers a partial reconcile: the holdings of pods may have changed.
func (t *triggers) holdings() { offer(t.partial) }

// everything triggers a full reconcile: anything may have changed.
func (t *triggers) everything() { offer(t.full) }

// offer puts an element into a channel, unless one is waiting there already.
func offer(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pace computes when to reconcile next. It has no clock: every method receives the time.
type pace struct {
	settle, maxSettle time.Duration // see the constants
	observe, write    time.Duration // the least time between reconciles, and between writes

	pending                  bool
	first                    time.Time // of the first change since the last reconcile
	lastReconcile, lastWrite time.Time
	failures                 int
}

// change records a change at the time now, and returns when to reconcile because of it.
func (p *pace) change(now time.Time) time.Time {
	if !p.pending {
		p.pending, p.first = true, now
	}
	at := now.Add(p.settle)
	if last := p.first.Add(p.maxSettle); last.Before(at) {
		at = last
	}
	return latest(at, p.lastReconcile.Add(p.observe), p.lastWrite.Add(p.write))
}

// since returns the time of the first change that a reconcile at the time now observes, or now if there was none.
func (p *pace) since(now time.Time) time.Time {
	if p.pending {
		return p.first
	}
	return now
}

// reconciled records a reconcile that began at the time now. After an error it returns when to try again even if
// nothing changes; otherwise it returns the zero time. The pause has a random part, so that agents do not retry
// together.
func (p *pace) reconciled(now time.Time, wrote bool, err error) time.Time {
	p.pending, p.lastReconcile = false, now
	if wrote || err != nil { // a failed write may have been executed
		p.lastWrite = now
	}
	if err == nil {
		p.failures = 0
		return time.Time{}
	}
	pause := min(lastRetry, firstRetry<<min(p.failures, 10))
	p.failures++
	return now.Add(pause/2 + rand.N(pause/2))
}

func latest(times ...time.Time) (out time.Time) {
	for _, t := range times {
		if t.After(out) {
			out = t
		}
	}
	return out
}

// loop reconciles when something changed, and fully every resync.
type loop struct {
	pace     pace
	resync   time.Duration
	triggers *triggers
	// reconcile observes and publishes. full reads everything again.
	reconcile func(ctx context.Context, full bool) (wrote bool, err error)
	// record records how long after the first change a reconcile ended, and how.
	record func(after time.Duration, wrote bool, err error)
	health *Health
	log    logr.Logger
}

func (l *loop) run(ctx context.Context) {
	full, logged := true, ""
	next := time.NewTimer(0)
	defer next.Stop()
	resync := time.NewTicker(l.resync)
	defer resync.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.triggers.partial:
			next.Reset(time.Until(l.pace.change(time.Now())))
		case <-l.triggers.full:
			full = true
			l.pace.failures = 0 // the cause of the failures may be over
			next.Reset(time.Until(l.pace.change(time.Now())))
		case <-resync.C:
			full = true
			next.Reset(time.Until(l.pace.change(time.Now())))
		case <-next.C:
			began := time.Now()
			since := l.pace.since(began)
			l.health.begin(began)
			wrote, err := l.reconcile(ctx, full)
			l.health.end(time.Now(), err)
			l.record(time.Since(since), wrote, err)
			full = full && err != nil
			logged = l.logError(logged, err)
			if again := l.pace.reconciled(began, wrote, err); !again.IsZero() {
				next.Reset(time.Until(again))
			}
		}
	}
}

// logError logs an error if its text differs from last, the text of the previous reconcile's error, and logs once
// when errors end. It returns the text to pass as last the next time; "" if err is nil.
func (l *loop) logError(last string, err error) (now string) {
	if err != nil {
		now = err.Error()
	}
	switch {
	case now == last:
	case err != nil:
		l.log.Error(err, "cannot publish; will retry")
	default:
		l.log.Info("publishing again")
	}
	return now
}
