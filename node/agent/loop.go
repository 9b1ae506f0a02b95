package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
)

// The pace of the loop. One admission writes two or three state files within a few milliseconds, so a
// look waits until they were at rest for settle, though never longer than mostSettle. The kubelet
// answers at most 100 podresources requests per second (pkg/kubelet/apis/grpc), of which one look
// makes two.
const (
	settle       = 8 * time.Millisecond
	mostSettle   = 25 * time.Millisecond
	lookInterval = 50 * time.Millisecond
	firstRetry   = 100 * time.Millisecond
	lastRetry    = 10 * time.Second
)

// changes collects what happened since the last look.
type changes struct {
	part, all chan struct{}
}

func newChanges() *changes { return &changes{make(chan struct{}, 1), make(chan struct{}, 1)} }

// some says that holdings may have changed.
func (c *changes) some() { offer(c.part) }

// every says that anything may have changed.
func (c *changes) every() { offer(c.all) }

func offer(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pace says when to look next. It knows no clock: every method is told the time.
type pace struct {
	settle, most, look, write time.Duration

	pending             bool
	first               time.Time // of the changes since the last look
	lastLook, lastWrite time.Time
	failures            int
}

// change returns when to look because of a change at now.
func (p *pace) change(now time.Time) time.Time {
	if !p.pending {
		p.pending, p.first = true, now
	}
	at := now.Add(p.settle)
	if last := p.first.Add(p.most); last.Before(at) {
		at = last
	}
	return latest(at, p.lastLook.Add(p.look), p.lastWrite.Add(p.write))
}

// since returns the time of the first change that a look which begins now will meet.
func (p *pace) since(now time.Time) time.Time {
	if p.pending {
		return p.first
	}
	return now
}

// looked notes a look that began at now, and returns when to look again without any change; the zero
// time means never.
func (p *pace) looked(now time.Time, wrote bool, err error) time.Time {
	p.pending, p.lastLook = false, now
	if wrote || err != nil { // a write may be what failed, and may have been done
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

// loop looks when something changed, and fully every resync.
type loop struct {
	pace    pace
	resync  time.Duration
	changes *changes
	// look reads and publishes; full says that nothing known before may be kept.
	look func(ctx context.Context, full bool) (wrote bool, err error)
	// looked is told how long after the first change that a look met it ended, and how.
	looked func(after time.Duration, wrote bool, err error)
	pulse  *Pulse
	log    logr.Logger
}

func (l *loop) run(ctx context.Context) {
	full, complaint := true, ""
	next := time.NewTimer(0)
	defer next.Stop()
	resync := time.NewTicker(l.resync)
	defer resync.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changes.part:
			next.Reset(time.Until(l.pace.change(time.Now())))
		case <-l.changes.all:
			full = true
			l.pace.failures = 0 // what made looks fail may be over
			next.Reset(time.Until(l.pace.change(time.Now())))
		case <-resync.C:
			full = true
			next.Reset(time.Until(l.pace.change(time.Now())))
		case <-next.C:
			began := time.Now()
			since := l.pace.since(began)
			l.pulse.began(began)
			wrote, err := l.look(ctx, full)
			l.pulse.looked(time.Now(), err)
			l.looked(time.Since(since), wrote, err)
			full = full && err != nil
			complaint = l.complain(complaint, err)
			if again := l.pace.looked(began, wrote, err); !again.IsZero() {
				next.Reset(time.Until(again))
			}
		}
	}
}

// complain logs an error once, however often it is met, and that it is over.
func (l *loop) complain(before string, err error) (now string) {
	if err != nil {
		now = err.Error()
	}
	switch {
	case now == before:
	case err != nil:
		l.log.Error(err, "cannot publish; will retry")
	default:
		l.log.Info("publishing again")
	}
	return now
}
