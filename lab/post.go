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

// post is what an agent's reports go through on their way to the API server. It can hold one back: its
// agent is told that the connection broke, and the report comes late, after newer ones.
type post struct {
	next http.RoundTripper

	mu   sync.Mutex
	hold bool          // the next report
	held *http.Request // with a body that was not read
}

// deliverTimeout bounds how long the delivery of a report may take.
const deliverTimeout = 10 * time.Second

var errHeld = errors.New("connection lost (the report is held back)")

// wrap makes rt the way on which requests go on.
func (p *post) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		report := r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodelayouts/")
		p.mu.Lock()
		p.next = rt
		keep := p.hold && report && r.Body != nil
		p.mu.Unlock()
		if !keep {
			return rt.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
		late := r.Clone(context.Background())
		late.Body = io.NopCloser(bytes.NewReader(body))
		p.mu.Lock()
		p.hold, p.held = false, late
		p.mu.Unlock()
		return nil, errHeld
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// holdNext holds the next report back, in place of one that is held already.
func (p *post) holdNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.held = true, nil
}

// deliver sends the report that is held back, if there is one, and ends the holding.
func (p *post) deliver(ctx context.Context) error {
	p.mu.Lock()
	late, next := p.held, p.next
	p.hold, p.held = false, nil
	p.mu.Unlock()
	if late == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	resp, err := next.RoundTrip(late.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("deliver a report late: %w", err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
