package agent

import (
	"fmt"
	"sync"
	"time"
)

// Health answers probes from the times at which an agent's reconciles began, ended and succeeded. The zero Health is
// ready to use, and its methods may be called from any goroutine. One Health is for one Run.
type Health struct {
	mu        sync.Mutex
	resync    time.Duration
	began     time.Time // when the reconcile in progress began; zero where none is
	ended     time.Time // when the last reconcile ended; zero before the first
	succeeded time.Time // when the last reconcile without any failure ended
}

// Bounds of Health.
const (
	// maxReconcile is how long a reconcile may take: its requests end after reconcileTimeout, and files are read in
	// milliseconds.
	maxReconcile = time.Minute
	// maxMissed is how many resync intervals may pass without a reconcile, or without one that succeeds.
	maxMissed = 3
	// maxRetry is added for the pauses between retries, and for the reconcile itself.
	maxRetry = lastRetry + reconcileTimeout
)

func (h *Health) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = now
}

func (h *Health) end(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began, h.ended = time.Time{}, now
	if err == nil {
		h.succeeded = now
	}
}

func (h *Health) setResync(resync time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resync = resync
}

// Alive returns an error if only a new process helps: a reconcile has been in progress for too long, or none has
// begun for several resync intervals. An agent that waits for the API server or the kubelet is alive, and so is one
// that has not begun its first reconcile.
func (h *Health) Alive(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.began.IsZero() {
		if d := now.Sub(h.began); d > maxReconcile {
			return fmt.Errorf("a reconcile has been in progress for %s, at most %s is normal",
				d.Truncate(time.Second), maxReconcile)
		}
		return nil
	}
	if d := now.Sub(h.ended); !h.ended.IsZero() && d > h.max() {
		return fmt.Errorf("the last reconcile ended %s ago, at most %s is normal", d.Truncate(time.Second), h.max())
	}
	return nil
}

// Ready returns an error if the published objects may be out of date: the agent is not alive, or no reconcile has
// succeeded yet, or none has for several resync intervals.
func (h *Health) Ready(now time.Time) error {
	if err := h.Alive(now); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch d := now.Sub(h.succeeded); {
	case h.succeeded.IsZero():
		return fmt.Errorf("no reconcile has succeeded yet")
	case d > h.max():
		return fmt.Errorf("the last reconcile that succeeded ended %s ago, at most %s is normal",
			d.Truncate(time.Second), h.max())
	}
	return nil
}

// max is the longest time between two reconciles of a healthy agent.
func (h *Health) max() time.Duration { return maxMissed*h.resync + maxRetry }
