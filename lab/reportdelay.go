package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// reportDelay is between an agent and the API server. It can hold one report back: the agent gets a connection error,
// and deliver sends the report later, after newer ones. It can also let all requests hang. It is safe for concurrent
// use.
type reportDelay struct {
	next http.RoundTripper // to the API server; mu guards it too

	mu     sync.Mutex
	hold   bool          // hold back the next report
	held   *http.Request // the report that is held back, with its body; nil if there is none
	resume chan struct{} // closed when requests no longer hang; nil if none hangs
}

// deliverTimeout bounds how long the delivery of a report may take.
const deliverTimeout = 10 * time.Second

var errHeld = errors.New("connection lost (the report is held back)")

// wrap returns a round tripper that sends requests through rt unless they are held back.
func (p *reportDelay) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		isReport := r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodelayouts/")
		p.mu.Lock()
		p.next = rt
		resume := p.resume
		keep := p.hold && isReport && r.Body != nil
		p.mu.Unlock()
		if resume != nil {
			select {
			case <-resume:
			case <-r.Context().Done():
				return nil, context.Cause(r.Context())
			}
		}
		if !keep {
			return rt.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
		report := r.Clone(context.Background())
		report.Body = io.NopCloser(bytes.NewReader(body))
		p.mu.Lock()
		p.hold, p.held = false, report
		p.mu.Unlock()
		return nil, errHeld
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// hang makes all requests from now on wait until answer is called or they time out.
func (p *reportDelay) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resume == nil {
		p.resume = make(chan struct{})
	}
}

// answer lets the waiting requests continue, and later ones pass at once.
func (p *reportDelay) answer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resume != nil {
		close(p.resume)
		p.resume = nil
	}
}

// holdNext holds back the next report, and drops one that is held already.
func (p *reportDelay) holdNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.held = true, nil
}

// deliver sends the report that is held back, if there is one, and stops holding.
func (p *reportDelay) deliver(ctx context.Context) error {
	p.mu.Lock()
	report, next := p.held, p.next
	p.hold, p.held = false, nil
	p.mu.Unlock()
	if report == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	resp, err := next.RoundTrip(report.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("deliver a report late: %w", err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
