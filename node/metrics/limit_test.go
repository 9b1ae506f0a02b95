package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wires is a network in memory, whose clients choose their addresses.
type wires struct {
	accept chan net.Conn
	end    chan struct{}
	open   atomic.Int64 // connections that the server has not closed
	most   atomic.Int64
}

func newWires() *wires { return &wires{accept: make(chan net.Conn), end: make(chan struct{})} }

func (w *wires) Accept() (net.Conn, error) {
	select {
	case c := <-w.accept:
		return c, nil
	case <-w.end:
		return nil, net.ErrClosed
	}
}

func (w *wires) Close() error   { close(w.end); return nil }
func (w *wires) Addr() net.Addr { return &net.TCPAddr{} }

// dial opens a connection that comes from an address.
func (w *wires) dial(from string) net.Conn {
	near, far := net.Pipe()
	c := &wired{Conn: far, w: w, from: &net.TCPAddr{IP: net.ParseIP(from), Port: 1}}
	for n := w.open.Add(1); ; {
		if m := w.most.Load(); n <= m || w.most.CompareAndSwap(m, n) {
			break
		}
	}
	w.accept <- c
	return near
}

type wired struct {
	net.Conn
	w      *wires
	from   net.Addr
	closed atomic.Bool
}

func (c *wired) RemoteAddr() net.Addr { return c.from }

// SetReadDeadline sets no timers: a pipe's timers outlive the pipe, and would be limitedConn as memory of the server.
func (c *wired) SetReadDeadline(at time.Time) error {
	if at.IsZero() || at.Before(time.Now()) {
		return c.Conn.SetReadDeadline(at)
	}
	return nil
}

func (c *wired) SetWriteDeadline(time.Time) error { return nil }

func (c *wired) Close() error {
	if !c.closed.Swap(true) {
		c.w.open.Add(-1)
	}
	return c.Conn.Close()
}

// ask requests a path from an address.
func (w *wires) ask(from, path string) (int, error) {
	c := w.dial(from)
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

// serveOn has a server serve a network in memory.
func serveOn(t *testing.T, s *Server, most int) *wires {
	t.Helper()
	w := newWires()
	s.listener = newLimited(w, most)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.http.Serve(s.listener)
	}()
	t.Cleanup(func() {
		s.http.Close()
		<-ended
	})
	return w
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Thousands of clients that connect and send nothing, or half a request, exhaust neither the memory nor the probes nor
// the scrapes of others.
func TestStorm(t *testing.T) {
	m := made(t, Options{})
	m.RecordNode(node(t), 1)
	h, err := m.Handler(nil)
	if err != nil {
		t.Fatal(err)
	}
	scrapes := serveOn(t, newServer(h), maxConns)
	fine := func() error { return nil }
	probes := serveOn(t, newServer(Health(fine, fine)), maxHealthConns)
	before := heap()
	for i := range 8000 {
		scrapes.dial("10.0.0.1")
		if i < 6300 {
			c := scrapes.dial(fmt.Sprintf("10.0.1.%d", i%8))
			_, _ = c.Write([]byte("GET /metrics HTTP/1.1\r\nHost: x\r\nX-Half: " + strings.Repeat("x", 1<<10)))
			c = probes.dial(fmt.Sprintf("10.0.1.%d", i%4))
			_, _ = c.Write([]byte("GET /livez HT"))
		}
		if i%500 == 0 {
			if code, err := probes.ask("10.0.0.9", "/livez"); code != 200 || err != nil {
				t.Fatalf("after %d connections a probe is answered %d, %v", i, code, err)
			}
			if code, err := scrapes.ask("10.0.0.8", "/metrics"); code != 200 || err != nil {
				t.Fatalf("after %d connections a scrape is answered %d, %v", i, code, err)
			}
		}
	}
	// Three more may exist: one that is not accepted yet, one that is being replaced, and one that the server is
	// closing.
	if n := scrapes.most.Load(); n > maxConns+3 {
		t.Errorf("%d connections were open at a time, want at most %d", n, maxConns)
	}
	if n := probes.most.Load(); n > maxHealthConns+3 {
		t.Errorf("%d connections for probes were open at a time, want at most %d", n, maxHealthConns)
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("memory grew from %d to %d bytes", before, after)
	}
}

// However connections come and go, no more are open than allowed, and one is closed for another only if its source has
// at least as many as any.
func TestLimitedIsFair(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(r, "most")
		l := newLimited(nil, most)
		var open []*limitedConn
		closed := map[*limitedConn]bool{}
		of := func(source string) (n int) {
			for _, c := range open {
				if c.source == source {
					n++
				}
			}
			return n
		}
		remove := func(c *limitedConn) {
			for i, x := range open {
				if x == c {
					open = append(open[:i:i], open[i+1:]...)
					return
				}
			}
		}
		for range rapid.IntRange(0, 60).Draw(r, "steps") {
			if len(open) > 0 && rapid.IntRange(0, 3).Draw(r, "close") == 0 {
				c := rapid.SampledFrom(open).Draw(r, "which")
				l.drop(c)
				l.drop(c) // closing twice is closing once
				remove(c)
				continue
			}
			c := &limitedConn{source: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "source")}
			evicted := l.add(c)
			if (evicted != nil) != (len(open) == most) {
				r.Fatalf("%d of %d are open, evicted %v", len(open), most, evicted)
			}
			if evicted != nil {
				if closed[evicted] {
					r.Fatal("evicted twice")
				}
				closed[evicted] = true
				for _, x := range open {
					if of(x.source) > of(evicted.source) {
						r.Fatalf("a connection of %s goes, which has %d; %s has %d", evicted.source, of(evicted.source),
							x.source, of(x.source))
					}
				}
				remove(evicted)
			}
			open = append(open, c)
			if l.count != len(open) || len(open) > most {
				r.Fatalf("%d are counted, %d are open, at most %d may be", l.count, len(open), most)
			}
		}
	})
}

func TestHealth(t *testing.T) {
	var alive, ready error
	w := serveOn(t, newServer(Health(func() error { return alive }, func() error { return ready })), 2)
	for _, c := range []struct {
		alive, ready error
		codes        [3]int
	}{
		{nil, nil, [3]int{200, 200, 200}},
		{nil, errors.New("late"), [3]int{200, 503, 503}},
		{errors.New("stuck"), errors.New("stuck"), [3]int{503, 503, 503}},
	} {
		alive, ready = c.alive, c.ready
		for i, path := range []string{"/livez", "/readyz", "/healthz"} {
			if code, err := w.ask("10.0.0.1", path); code != c.codes[i] || err != nil {
				t.Errorf("alive %v, ready %v: %s is answered %d, %v", c.alive, c.ready, path, code, err)
			}
		}
	}
}
