package metrics

import (
	"net"
	"sync"
)

// limited is a listener with a bounded number of open connections, so that clients cannot exhaust the memory of the
// process. A source is an IP address. When the bound is reached, a new connection replaces the oldest connection of
// the source that has the most. So a source that opens many connections loses its own, and a source with few is
// served.
type limited struct {
	net.Listener
	limit int // open connections

	mu    sync.Mutex
	open  map[string][]*limitedConn // by source, the oldest first
	count int
	next  int // number of the next connection
}

func newLimited(l net.Listener, limit int) *limited {
	return &limited{Listener: l, limit: limit, open: map[string][]*limitedConn{}}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := &limitedConn{Conn: c, listener: l, source: source(c.RemoteAddr())}
	if evicted := l.add(n); evicted != nil {
		evicted.Conn.Close()
	}
	return n, nil
}

// add records a connection, and returns the one that the caller has to close for it; nil if the bound is not reached.
func (l *limited) add(c *limitedConn) (evicted *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.limit {
		evicted = l.fullest()
		l.drop(evicted)
	}
	c.number = l.next
	l.next++
	l.open[c.source] = append(l.open[c.source], c)
	l.count++
	return evicted
}

// fullest returns the oldest connection of the source with the most connections. If several sources have equally
// many, it takes the source whose oldest connection came first.
func (l *limited) fullest() (out *limitedConn) {
	largest := 0
	for _, list := range l.open {
		if n := len(list); n > largest || n == largest && list[0].number < out.number {
			largest, out = n, list[0]
		}
	}
	return out
}

// drop removes a connection from the records. It does nothing if the connection was removed before, as after an
// eviction. The caller holds the lock.
func (l *limited) drop(c *limitedConn) {
	list := l.open[c.source]
	for i, x := range list {
		if x == c {
			l.count--
			if list = append(list[:i:i], list[i+1:]...); len(list) == 0 {
				delete(l.open, c.source)
			} else {
				l.open[c.source] = list
			}
			return
		}
	}
}

func source(a net.Addr) string {
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}

// limitedConn is a connection of a limited listener.
type limitedConn struct {
	net.Conn
	listener *limited
	source   string
	number   int // connections are numbered in the order in which they came
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.drop(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
