package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/node/agent"
)

// opened opens the outlets that the arguments name.
func opened(t *testing.T, args ...string) (agent.Config, error) {
	t.Helper()
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	var o outlets
	o.flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	cfg := agent.Config{NodeName: "n", REST: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: logr.Discard()}
	return cfg, o.open(ctx, &cfg)
}

func TestOutlets(t *testing.T) {
	cfg, err := opened(t, "--metrics-address", "127.0.0.1:0", "--debug-address", "127.0.0.1:0")
	if err != nil || cfg.Publisher == nil || cfg.Witness == nil {
		t.Errorf("publisher %v, witness %v, error %v", cfg.Publisher, cfg.Witness, err)
	}
	cfg, err = opened(t, "--metrics-address", "", "--node-resource-topology=false")
	if err != nil || cfg.Publisher != nil || cfg.Witness != nil {
		t.Errorf("all off: publisher %v, witness %v, error %v", cfg.Publisher, cfg.Witness, err)
	}
}

func TestOutletsThatCannotBeOpened(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct{ args, want string }{
		{"--metrics-address=" + taken.Addr().String(), taken.Addr().String()},
		{"--metrics-pods=-1", "number of pods"},
		{"--metrics-tls-cert-file=/nowhere/tls.crt", "/nowhere/tls.crt"},
		{"--debug-address=:6060", "loopback"},
		{"--metrics-containers=-1", "number of containers"},
		{"--metrics-authorization", "needs --metrics-tls-cert-file"},
		{"--kubelet-cgroup-root=/../x", "kubelet's root"},
	} {
		if _, err := opened(t, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not say %q", c.args, err, c.want)
		}
	}
}

// Every flag is where people look for it.
func TestOutletsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var fs flag.FlagSet
	new(outlets).flags(&fs)
	fs.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(string(document), "`--"+f.Name+"`") {
			t.Errorf("docs/metrics.md does not say what --%s is", f.Name)
		}
	})
}

// Metrics that only those may read whom the API server allows are not there for a stranger, nor without
// TLS, and the health is.
func TestMetricsBehindTheGate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certificate(t, cert, key)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	if _, err := opened(t, "--metrics-address", address, "--metrics-authorization", "--metrics-tls-cert-file", cert, "--metrics-tls-private-key-file", key); err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for path, want := range map[string]int{"/metrics": 401, "/healthz": 200} {
		resp, err := c.Get("https://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s is answered %s, want %d", path, resp.Status, want)
		}
	}
}

// certificate writes a certificate with its key.
func certificate(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, b := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
