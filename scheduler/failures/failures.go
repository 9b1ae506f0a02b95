// Package failures handles failed scheduling attempts outside the scheduling loop. kube-scheduler handles each of
// them in the loop, where it writes the pod's status. That takes milliseconds, and half a second for a pod of
// thousands of containers, while all other pods wait.
//
// Invariant: every failed attempt is handled once, by at most [Workers] goroutines. Namespaces are served in
// rotation, so a namespace with many failed pods does not delay the handling of others. A failed attempt waits for at
// most as many others as its own namespace has waiting, times the number of namespaces that have any.
//
// The number of waiting attempts is bounded. Beyond the bound the caller handles an attempt itself, as kube-scheduler
// does. The package handles functions, and needs no Kubernetes types. All methods may be called by any goroutine.
package failures

import (
	"context"
	"sync"
)

const (
	// Workers is the number of attempts that are handled at a time. Each makes one request to the API server. Where the
	// rate of requests is limited, the scheduler's other requests, such as bindings, wait behind at most this many.
	Workers = 4
	// maxWaiting bounds the attempts of one namespace that wait, maxAll the attempts of all namespaces.
	maxWaiting = 4096
	maxAll     = 4 * maxWaiting
)

// Line is the queue of failed attempts that are not handled yet.
type Line struct {
	mu sync.Mutex
	// waiting has the handlers of each namespace, oldest first. turns has the namespaces with handlers, each once; the
	// first one is served next, and then goes to the end if it has more.
	waiting map[string][]func()
	turns   []string
	count   int
	ready   chan struct{} // has an entry for every handler
}

// New returns an empty line.
func New() *Line {
	return &Line{waiting: map[string][]func(){}, ready: make(chan struct{}, maxAll)}
}

// Add queues the handler of a failed attempt. It returns false if too many wait; then the caller must call the
// handler itself.
func (l *Line) Add(namespace string, handle func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	handlers := l.waiting[namespace]
	if len(handlers) >= maxWaiting || l.count == maxAll {
		return false
	}
	if len(handlers) == 0 {
		l.turns = append(l.turns, namespace)
	}
	l.waiting[namespace] = append(handlers, handle)
	l.count++
	l.ready <- struct{}{} // there is room, since count is below maxAll
	return true
}

// next removes the oldest handler of the namespace that is served next, and returns it. The line must not be empty.
func (l *Line) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	namespace := l.turns[0]
	l.turns = l.turns[1:]
	handlers := l.waiting[namespace]
	handle := handlers[0]
	handlers[0] = nil
	if handlers = handlers[1:]; len(handlers) > 0 {
		l.waiting[namespace] = handlers
		l.turns = append(l.turns, namespace)
	} else {
		delete(l.waiting, namespace)
	}
	l.count--
	return handle
}

// Run starts the workers, which call handlers until the context ends, and returns at once.
func (l *Line) Run(ctx context.Context) {
	for range Workers {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-l.ready:
					l.next()()
				}
			}
		}()
	}
}
