package metrics

import (
	"io"
	"net/http"
	"time"
)

// Bounds on clients of the health server.
const (
	healthTimeout  = 2 * time.Second
	maxHealthConns = 16
	maxHealthBytes = 4 << 10 // of the header of a request
)

const healthIndex = `tenon-agent, probes

/livez      ok: the agent goes on
/readyz     ok: what the agent publishes is up to date
/healthz    the same as /readyz

Metrics are at the address of --metrics-address (:9201 unless set).
`

// Health answers probes: /livez whether the process works, and /readyz and /healthz whether what it publishes is up to
// date. A failed probe is answered with 503 and the reason.
func Health(alive, ready func() error) http.Handler {
	probe := func(check func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, "ok\n")
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index(healthIndex))
	mux.HandleFunc("GET /livez", probe(alive))
	mux.HandleFunc("GET /readyz", probe(ready))
	mux.HandleFunc("GET /healthz", probe(ready))
	return mux
}

// ListenHealth opens an address for probes. It serves plain HTTP to any client. Its bound on connections is its own,
// and it closes each connection after one answer, so that readers of metrics cannot delay a probe.
func ListenHealth(address string, h http.Handler) (*Server, error) {
	s := newServer(h)
	s.http.SetKeepAlivesEnabled(false)
	s.http.ReadHeaderTimeout, s.http.ReadTimeout, s.http.WriteTimeout = healthTimeout, healthTimeout, healthTimeout
	s.http.MaxHeaderBytes = maxHealthBytes
	return s.listen(address, maxHealthConns)
}
