package control

import (
	"net"
	"sync"
)

// listener keeps the connections that it has accepted, so that cut can close them. Otherwise an API server would not
// shut down: it waits until its clients end their watches, and they do not.
type listener struct {
	net.Listener
	mu    sync.Mutex
	conns map[*conn]bool
}

func newListener(l net.Listener) *listener { return &listener{Listener: l, conns: map[*conn]bool{}} }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &conn{c, l}
	l.conns[out] = true
	return out, nil
}

// cut closes all connections that have been accepted so far.
func (l *listener) cut() {
	l.mu.Lock()
	conns := l.conns
	l.conns = map[*conn]bool{}
	l.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
}

type conn struct {
	net.Conn
	l *listener
}

func (c *conn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
