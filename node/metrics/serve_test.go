package metrics

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"
)

// certificate writes a certificate of 127.0.0.1 with its key, and returns a pool that trusts it.
func certificate(t *testing.T, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	certPEM, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{certFile: certPEM, keyFile: key} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

// run serves until the test ends.
func run(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s is answered %s, %v", url, resp.Status, err)
	}
	return string(body)
}

func TestServe(t *testing.T) {
	m := made(t, Options{})
	m.RecordNode(node(t), 1)
	h, err := m.Handler(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen("127.0.0.1:0", "", "", h)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if got := get(t, c, "http://"+s.Address()+"/metrics"); !strings.Contains(got,
		`numa_node_cpus_count{node="node-a",numa_node="8"} 4`) ||
		!strings.Contains(got, "go_goroutines") {
		t.Errorf("scrape is\n%s", got)
	}
	if got := get(t, c, "http://"+s.Address()+"/healthz"); got != "ok\n" {
		t.Errorf("health is %q", got)
	}
}

// A renewed certificate is used without a restart.
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := Listen("127.0.0.1:0", cert, "", nil); err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("error %v does not name the certificate", err)
	}
	pool := certificate(t, cert, key)
	h, err := made(t, Options{}).Handler(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen("127.0.0.1:0", cert, key, h)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	for range 2 {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
		get(t, c, "https://"+s.Address()+"/healthz")
		pool = certificate(t, cert, key)
	}
	// Half of a renewal changes nothing.
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	get(t, c, "https://"+s.Address()+"/healthz")
	certificate(t, cert, filepath.Join(dir, "other.key"))
	get(t, c, "https://"+s.Address()+"/healthz")
}

// A guard is called for the metrics, and not for the health.
func TestGuard(t *testing.T) {
	h, err := made(t, Options{}).Handler(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/metrics": 403, "/healthz": 200, "/": 200, "/debug/pprof/": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want {
			t.Errorf("%s is answered %d, want %d", path, w.Code, want)
		}
	}
}

func TestProfilesStayOnTheMachine(t *testing.T) {
	for _, bad := range []string{":6060", "0.0.0.0:6060", "[::]:6060", "example.com:6060", "10.0.0.1:6060",
		"127.0.0.1", ""} {
		if _, err := ListenProfiles(bad); err == nil {
			t.Errorf("profiles are served on %q", bad)
		}
	}
	s, err := ListenProfiles("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if got := get(t, c, "http://"+s.Address()+"/debug/pprof/cmdline"); got == "" {
		t.Error("no profile")
	}
}

// Each port lists what it serves, and serves what it lists.
func TestPortsListWhatTheyServe(t *testing.T) {
	h, err := made(t, Options{}).Handler(nil)
	if err != nil {
		t.Fatal(err)
	}
	well := func() error { return nil }
	for name, h := range map[string]http.Handler{"metrics": h, "health": Health(well, well)} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		listed := 0
		for line := range strings.Lines(w.Body.String()) {
			if path := strings.Fields(line + " -")[0]; strings.HasPrefix(path, "/") {
				listed++
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); w.Code != http.StatusOK {
					t.Errorf("%s: %s is listed, and answered %d", name, path, w.Code)
				}
			}
		}
		if listed < 2 {
			t.Errorf("%s lists %d paths:\n%s", name, listed, w.Body)
		}
	}
}
