package agent

import (
	"fmt"
	"sync"
	"time"
)

// Pulse says how the reconciling of an agent goes, for probes. The zero Pulse is ready to use, and its methods
// may be called from any goroutine. One Pulse is for one Run.
type Pulse struct {
	mu        sync.Mutex
	resync    time.Duration
	looking   time.Time // when the look that is in progress began; zero where none is
	ended     time.Time // when the last look ended; zero before the first
	succeeded time.Time // when the last look ended that failed in nothing
}

// Bounds of a Pulse.
const (
	// maxLook is how long a look may take: its requests end after lookTimeout, and files are read in
	// milliseconds.
	maxLook = time.Minute
	// missedLooks is how many intervals may pass without a look, or without one that succeeds.
	missedLooks = 3
	// maxRetry is added for the pauses between retries, and for the look itself.
	maxRetry = lastRetry + lookTimeout
)

func (p *Pulse) began(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking = now
}

func (p *Pulse) looked(now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking, p.ended = time.Time{}, now
	if err == nil {
		p.succeeded = now
	}
}

func (p *Pulse) every(resync time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resync = resync
}

// Alive returns an error where only a new process helps: a look has been in progress for too long, or none has
// been begun for several intervals. An agent that waits for the API server or the kubelet is alive.
func (p *Pulse) Alive(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.looking.IsZero() {
		if d := now.Sub(p.looking); d > maxLook {
			return fmt.Errorf("a look at the node has been in progress for %s, the most is %s", d.Truncate(time.Second), maxLook)
		}
		return nil
	}
	if d := now.Sub(p.ended); !p.ended.IsZero() && d > p.most() {
		return fmt.Errorf("the last look at the node ended %s ago, the most is %s", d.Truncate(time.Second), p.most())
	}
	return nil
}

// Ready returns an error where what is published may be out of date: the agent is not alive, or no look has
// succeeded for several intervals.
func (p *Pulse) Ready(now time.Time) error {
	if err := p.Alive(now); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch d := now.Sub(p.succeeded); {
	case p.succeeded.IsZero():
		return fmt.Errorf("no look at the node has succeeded yet")
	case d > p.most():
		return fmt.Errorf("the last look at the node that succeeded ended %s ago, the most is %s", d.Truncate(time.Second), p.most())
	}
	return nil
}

func (p *Pulse) most() time.Duration { return missedLooks*p.resync + maxRetry }
