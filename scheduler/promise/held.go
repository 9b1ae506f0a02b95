package promise

import (
	"sync"
	"sync/atomic"
	"time"
)

// This file holds back pods while a request that names their controller has no room yet. Otherwise one of these pods
// could take the room that the request waits for. A pod is held back only by a request of its own namespace, and no
// longer than that request asks for.

// MaxHeld bounds the requests for which pods are held back at a time.
const MaxHeld = 1024

// held are the requests for which pods are held back.
type held struct {
	count    atomic.Int64
	mu       sync.Mutex
	requests map[string]hold // by name
}

// hold is a request, and until when its pods are held back.
type hold struct {
	Request
	until time.Time
}

// Hold holds back the pods of a request's owner that were created at Since or later, until a time or until Release. It
// reports whether they are held back: beyond [MaxHeld] requests they are not.
func (k *Keeper) Hold(r Request, until time.Time) bool {
	h := &k.held
	h.mu.Lock()
	before, known := h.requests[r.Name]
	if r.Owner == "" || !known && len(h.requests) >= MaxHeld {
		h.mu.Unlock()
		return false
	}
	if h.requests == nil {
		h.requests = map[string]hold{}
	}
	h.requests[r.Name] = hold{r, until}
	h.count.Store(int64(len(h.requests)))
	h.mu.Unlock()
	if known && before.Request != r { // another request of the same name, which may hold back fewer pods
		k.released(before.Owner)
	}
	return true
}

// Release holds back no more pods for a request.
func (k *Keeper) Release(request string) {
	h := &k.held
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	before, had := h.requests[request]
	delete(h.requests, request)
	h.count.Store(int64(len(h.requests)))
	h.mu.Unlock()
	if had {
		k.released(before.Owner)
	}
}

// Holding returns the requests for which pods are held back, in any order.
func (k *Keeper) Holding() (out []string) {
	h := &k.held
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.requests {
		out = append(out, name)
	}
	return out
}

// HoldsAny reports whether pods are held back. It takes no lock. A nil keeper holds back none.
func (k *Keeper) HoldsAny() bool { return k != nil && k.held.count.Load() > 0 }

// Holds returns the request for which a pod of an owner is held back now that was created at a time, in seconds, or "".
func (k *Keeper) Holds(owner string, created int64, now time.Time) string {
	if owner == "" || !k.HoldsAny() {
		return ""
	}
	h := &k.held
	h.mu.Lock()
	defer h.mu.Unlock()
	first := ""
	for name, r := range h.requests {
		if r.Owner == owner && created >= r.Since && now.Before(r.until) && (first == "" || name < first) {
			first = name
		}
	}
	return first
}
