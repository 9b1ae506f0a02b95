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

func (d *decisions) get(key hash, now time.Time) (code int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.known[key]
	if !ok || !now.Before(x.until) {
		return 0, false
	}
	return x.code, true
}

func (d *decisions) put(key hash, code int, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.known[key]; ok {
		// It expired, or another request was reviewed at the same time. Its position in the order would be wrong.
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
