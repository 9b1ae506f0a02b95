package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// wire is a network of one address in memory: in a bubble of virtual time nothing may wait for a real one.
type wire struct {
	mu     sync.Mutex
	cut    bool
	conns  []net.Conn
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire { return &wire{accept: make(chan net.Conn), closed: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.accept:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (w *wire) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	select {
	case w.accept <- far:
		w.conns = append(w.conns, near)
		return near, nil
	case <-w.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// set closes all connections and refuses new ones, or accepts them again.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// world is a node and an API server in a bubble of virtual time.
type world struct {
	*node
	api    *api
	server *wire // to the API server
	socket *wire // to the kubelet
	agents []*agent
}

// inWorld runs a test in a bubble in which time passes only when nothing else happens.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{node: emptyNode(t, "node-a"), api: emptyAPI(), server: newWire()}
		s := &http.Server{Handler: w.api.handler()}
		go s.Serve(w.server)
		t.Cleanup(func() { s.Close() })
		w.serve()
		test(t, w)
	})
}

// serve starts the kubelet's service.
func (w *world) serve() {
	w.socket = newWire()
	w.stop = w.service.ServeOn(w.t, w.socket)
}

// config returns the configuration of an agent that reaches the world's servers.
func (w *world) config(log logr.Logger) Config {
	overAPI := func(ctx context.Context, _, _ string) (net.Conn, error) { return w.server.dial(ctx) }
	cfg := w.node.config(&rest.Config{Host: "http://api", Dial: overAPI}, log)
	cfg.Interval = DefaultInterval
	overSocket := func(ctx context.Context, _ string) (net.Conn, error) { return w.socket.dial(ctx) }
	cfg.dial = []grpc.DialOption{grpc.WithContextDialer(overSocket)}
	return cfg
}

// start runs an agent until it is stopped or the test ends, and returns when the agent is idle.
func (w *world) start(cfg Config) (stop func()) {
	w.t.Helper()
	a, err := newAgent(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.agents = append(w.agents, a)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.run(ctx, func(context.Context) {})
	}()
	stop = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(stop)
	pass(time.Second)
	return stop
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// touched triggers a reconcile of the agents, as changed state files do.
func (w *world) touched() {
	for _, a := range w.agents {
		a.triggers.holdings()
	}
}

func (w *world) writes() int {
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	return w.api.writes
}

func (w *world) requests() int {
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	return w.api.requests
}

// layout returns the complete layout at the API server; nil if there is none.
func (w *world) layout() *v1alpha1.NodeLayout {
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	return w.api.whole(w.name)
}

// run gives CPUs to a pod.
func (w *world) run(name, cpus string) {
	w.api.addPod(w.t, w.pod(name, 1))
	w.service.SetPods(listed(name))
	w.cpus(`{"uid-` + name + `":{"main":"` + cpus + `"}}`)
	w.touched()
}

// journal keeps lines of log.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, args)
	}, funcr.Options{})
}

// count counts the lines that contain a text.
func (j *journal) count(what string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines {
		if strings.Contains(l, what) {
			n++
		}
	}
	return n
}
