package authfilter

import (
	"crypto/sha256"
	"sync"
	"time"
)

// hash identifies a request by its token, verb and path. Tokens themselves are not kept.
type hash [sha256.Size]byte

// decisions keeps decisions for a while. When it is full, it drops the one that would expire next.
type decisions struct {
	keep time.Duration

	mu    sync.Mutex
	known map[hash]decision
	order []hash // by the time of the decision
}

type decision struct {
	code  int
	until time.Time
}

func newDecisions(keep time.Duration) *decisions {
	return &decisions{keep: keep, known: map[hash]decision{}}
}

// get returns the code of a kept decision; ok is false if there is none, or if it has expired.
func (d *decisions) get(key hash, now time.Time) (code int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.known[key]
	if !ok || !now.Before(x.until) {
		return 0, false
	}
	return x.code, true
}

// put keeps a decision that was made at the time now, and drops expired ones.
func (d *decisions) put(key hash, code int, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.known[key]; ok {
		// The earlier decision has expired, or another goroutine reviewed an equal request. It leaves the order here, and
		// is added at the end.
		for i, k := range d.order {
			if k == key {
				d.order = append(d.order[:i], d.order[i+1:]...)
				break
			}
		}
	}
	d.known[key] = decision{code, now.Add(d.keep)}
	d.order = append(d.order, key)
	for len(d.order) > maxDecisions || !now.Before(d.known[d.order[0]].until) {
		delete(d.known, d.order[0])
		d.order = d.order[1:]
	}
}
