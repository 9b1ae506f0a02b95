package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of connections.
const (
	readHeader  = 5 * time.Second
	readAll     = 30 * time.Second
	writeAll    = 60 * time.Second // streams set their own deadlines
	idleTime    = time.Minute
	maxHeader   = 16 << 10 // bytes
	maxConns    = 256
	stopTimeout = 3 * time.Second
)

// Serve serves a handler until ctx ends, and then waits for requests in progress, for stopTimeout at most. It returns
// an error if it cannot serve. If there are too many connections, it closes one that waits for its client: the oldest
// of the address that has most such connections. So slow clients do not block others.
func Serve(ctx context.Context, on net.Listener, h http.Handler) error {
	c := &connections{limit: maxConns, all: map[net.Conn]*connection{}}
	s := &http.Server{Handler: c.counting(h), ReadHeaderTimeout: readHeader, ReadTimeout: readAll,
		WriteTimeout: writeAll, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ConnState: c.stateChanged,
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		}}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(on) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", on.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.Shutdown(stop); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving %s: %w", on.Addr(), err)
	}
	return s.Close()
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// connections bounds the connections of one server.
type connections struct {
	limit int
	mu    sync.Mutex
	all   map[net.Conn]*connection
	next  int
}

type connection struct {
	order    int    // order of arrival
	address  string // the client's network; see network
	requests int    // whole requests, with their bodies, that the handler answers now
}

// stateChanged records new and ended connections, and closes a waiting one if there are too many. The HTTP server
// calls it whenever the state of a connection changes.
func (c *connections) stateChanged(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case http.StateNew:
		c.next++
		c.all[conn] = &connection{order: c.next, address: network(conn.RemoteAddr().String()).String()}
		if len(c.all) > c.limit {
			c.evict()
		}
	case http.StateClosed, http.StateHijacked:
		delete(c.all, conn)
	}
}

// evict closes a connection on which no whole request is being answered: the oldest one of the address that has most
// of them. It closes none if all connections are busy. The caller holds the lock.
func (c *connections) evict() {
	idle := map[string]int{}
	for _, x := range c.all {
		if x.requests == 0 {
			idle[x.address]++
		}
	}
	var victim net.Conn
	for conn, x := range c.all {
		if x.requests > 0 {
			continue
		}
		if victim == nil || idle[x.address] > idle[c.all[victim].address] ||
			idle[x.address] == idle[c.all[victim].address] && x.order < c.all[victim].order {
			victim = conn
		}
	}
	if victim != nil {
		delete(c.all, victim)
		_ = victim.Close()
	}
}

// counting returns a handler that counts, for each connection, the whole requests that h answers. A request is whole
// once its body has arrived.
func (c *connections) counting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		whole := false
		arrived := sync.OnceFunc(func() { whole = true; c.busy(conn, 1) })
		if r.ContentLength == 0 {
			arrived()
		} else {
			r.Body = &arriving{r.Body, arrived}
		}
		h.ServeHTTP(w, r)
		if whole {
			c.busy(conn, -1)
		}
	})
}

// arriving is the body of a request. It calls arrived at the end of the body.
type arriving struct {
	io.ReadCloser
	arrived func()
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		a.arrived()
	}
	return n, err
}

// busy counts a whole request of a connection that begins (by is 1) or ends (by is -1).
func (c *connections) busy(conn net.Conn, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.all[conn]; x != nil {
		x.requests += by
	}
}
