package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds on clients.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHeader    = 16 << 10 // bytes
	maxScrapes   = 4        // at a time
	maxConns     = 32       // open connections of one server
	stopTimeout  = 5 * time.Second
)

// index returns a handler that answers with a list of the server's paths.
func index(list string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, list)
	}
}

const metricsIndex = `tenon-agent, metrics

/metrics    metrics of the node, its pods and the agent, for Prometheus; who may read it, the API server decides
/healthz    ok: the agent runs

Probes are at the address of --health-address (:9202 unless set).
`

// Handler serves /metrics, with the process's own metrics, and /healthz. If guard is not nil, it wraps the handler of
// /metrics. Any client may read /healthz, which shows only that the agent runs, and /, which lists both paths.
func (m *Metrics) Handler(guard func(http.Handler) http.Handler) (http.Handler, error) {
	r := prometheus.NewRegistry()
	if err := errors.Join(m.Register(r), r.Register(collectors.NewBuildInfoCollector()),
		r.Register(collectors.NewGoCollector()),
		r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	scrape := promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes})
	if guard != nil {
		scrape = guard(scrape)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index(metricsIndex))
	mux.Handle("GET /metrics", scrape)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	return mux, nil
}

// Server is an HTTP server that listens already.
type Server struct {
	http     *http.Server
	listener net.Listener
	tls      bool
}

// Listen opens an address, such as ":9201". With the files of a certificate and its key it speaks TLS. It reads the
// files again for every connection, so that they can be renewed. If that fails, for example while only one of them is
// new, the last valid pair stays in use.
func Listen(address, certFile, keyFile string, h http.Handler) (*Server, error) {
	s := newServer(h)
	if certFile != "" || keyFile != "" {
		first, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate %q with key %q: %w", certFile, keyFile, err)
		}
		var last atomic.Pointer[tls.Certificate]
		last.Store(&first)
		load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c, err := tls.LoadX509KeyPair(certFile, keyFile); err == nil {
				last.Store(&c)
			}
			return last.Load(), nil
		}
		s.secure(&tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: load})
	}
	return s.listen(address, maxConns)
}

// ListenSelfSigned is Listen with TLS and a certificate that the process makes for itself. Clients cannot verify it; it
// protects their tokens from passive listeners on the network.
func ListenSelfSigned(address, name string, h http.Handler) (*Server, error) {
	c, err := selfSigned(name)
	if err != nil {
		return nil, fmt.Errorf("make a certificate of %q: %w", name, err)
	}
	s := newServer(h)
	s.secure(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c}})
	return s.listen(address, maxConns)
}

func newServer(h http.Handler) *Server {
	return &Server{http: &http.Server{Handler: h, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}}
}

// secure makes the server speak TLS. It speaks HTTP/1.1 only: one connection of HTTP/2 may carry hundreds of requests,
// so a bound on connections would have no effect.
func (s *Server) secure(c *tls.Config) {
	s.tls, s.http.TLSConfig = true, c
	s.http.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
}

func (s *Server) listen(address string, limit int) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", address, err)
	}
	s.listener = newLimited(l, limit)
	return s, nil
}

const profilesIndex = `tenon-agent, profiles

/debug/pprof/    list of Go's profiles of this process
`

// ListenProfiles opens an address for Go's profiles. It must be a loopback address, such as "127.0.0.1:6060".
func ListenProfiles(address string) (*Server, error) {
	if err := checkLoopback(address); err != nil {
		return nil, fmt.Errorf("address of profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index(profilesIndex))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s, err := Listen(address, "", "", mux)
	if err != nil {
		return nil, err
	}
	s.http.WriteTimeout = 0 // the client chooses how long a profile takes
	return s, nil
}

// ListenLocal is Listen in plain HTTP at a loopback address. In a pod, this is the pod's own loopback address. A
// client outside of the pod reaches it by kubectl port-forward, if the API server allows that.
func ListenLocal(address string, h http.Handler) (*Server, error) {
	if err := checkLoopback(address); err != nil {
		return nil, fmt.Errorf("local address of metrics: %w", err)
	}
	return Listen(address, "", "", h)
}

func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: %w", address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address such as 127.0.0.1:6060", address)
	}
	return nil
}

// Address returns the address that the server listens on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends and then returns nil.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if s.http.Shutdown(end) != nil {
			_ = s.http.Close() // Serve returns either way
		}
	})
	defer stop()
	serve := s.http.Serve
	if s.tls {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.Address(), err)
	}
	return nil
}
