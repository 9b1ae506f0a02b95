package main

import (
	"context"
	"crypto/tls"
	"flag"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/tenon-numa/tenon/node/agent"
)

// opened opens the outlets in the arguments.
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
	if !strings.Contains(strings.Join(args, " "), "--health-address") {
		o.health = "127.0.0.1:0"
	}
	cfg := agent.Config{NodeName: "n", REST: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: logr.Discard()}
	err := o.open(ctx, &cfg)
	return cfg, err
}

func TestOutlets(t *testing.T) {
	cfg, err := opened(t, "--metrics-address", "127.0.0.1:0", "--debug-address", "127.0.0.1:0")
	if err != nil || cfg.Publisher == nil || cfg.Recorder == nil || cfg.Health == nil {
		t.Errorf("publisher %v, recorder %v, error %v", cfg.Publisher, cfg.Recorder, err)
	}
	cfg, err = opened(t, "--metrics-address", "", "--node-resource-topology=false", "--health-address", "")
	if err != nil || cfg.Publisher != nil || cfg.Recorder != nil || cfg.Health != nil {
		t.Errorf("all off: publisher %v, recorder %v, error %v", cfg.Publisher, cfg.Recorder, err)
	}
}

// Each published kind has a flag; the agent watches the NodeResourceTopology where there are both.
func TestPublishedKinds(t *testing.T) {
	for args, want := range map[string]string{
		"": "NodeResourceTopology",
		"--numatopology --node-resource-topology=false": "Numatopology",
		"--numatopology": "NodeResourceTopology",
	} {
		cfg, err := opened(t, append(strings.Fields(args), "--metrics-address=")...)
		if err != nil || cfg.Publisher == nil || cfg.Publisher.Object() != want {
			t.Errorf("%q: publisher %v, error %v; want %s", args, cfg.Publisher, err, want)
		}
		if _, both := cfg.Publisher.(*agent.Both); both != (args == "--numatopology") {
			t.Errorf("%q: publishes two objects: %v", args, both)
		}
	}
}

// The local address needs no token, and works without the other.
func TestLocalMetrics(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	cfg, err := opened(t, "--metrics-address=", "--metrics-local-address="+address, "--cgroup-root=")
	if err != nil || cfg.Recorder == nil {
		t.Fatalf("recorder %v, error %v", cfg.Recorder, err)
	}
	res, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("metrics are answered %s", res.Status)
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
		{"--metrics-authorization=false --metrics-tls-cert-file=/nowhere/tls.crt", "/nowhere/tls.crt"},
		{"--debug-address=:6060", "loopback"},
		{"--metrics-local-address=:9203", "loopback"},
		{"--metrics-containers=-1", "number of containers"},
		{"--metrics-tls-cert-file=/nowhere/tls.crt", "needs --metrics-tls-private-key-file"},
		{"--metrics-tls-private-key-file=/nowhere/tls.key", "needs --metrics-tls-private-key-file"},
		{"--health-address=" + taken.Addr().String(), "health"},
		{"--kubelet-cgroup-root=/../x", "kubelet's root"},
	} {
		if _, err := opened(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not say %q", c.args, err, c.want)
		}
	}
}

// With cgroup v2 the agent's pods lead to the memory of their containers. Without it, the agent logs once why there are
// no such metrics, and runs.
func TestMemoryOfContainers(t *testing.T) {
	root := t.TempDir()
	o := outlets{cgroups: root, containers: 1}
	var logged []string
	cfg := agent.Config{Logger: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})}
	m, err := o.memory(&cfg)
	if m != nil || err != nil || len(logged) != 1 || !strings.Contains(logged[0], "only cgroup v2") {
		t.Errorf("without cgroup v2: %v, error %v, logged %q", m, err, logged)
	}
	dir := filepath.Join(root, "kubepods/podu/0a")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{filepath.Join(root, "cgroup.controllers"): "memory\n",
		filepath.Join(dir, "memory.numa_stat"): "anon N0=4096\nfile N0=0\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err = o.memory(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Running(); len(got) != 0 {
		t.Errorf("before the agent runs there are %v", got)
	}
	cfg.Pods(func() []*v1.Pod {
		return []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Status: v1.PodStatus{
			QOSClass:          v1.PodQOSGuaranteed,
			ContainerStatuses: []v1.ContainerStatus{{Name: "c", ContainerID: "containerd://0a"}}}}}
	})
	for _, c := range m.Running() {
		if got, err := m.Memory(c); err != nil || got.NUMAs[0].Anon != 4096 {
			t.Errorf("%s has %+v, %v", c, got, err)
		}
	}
	if len(m.Running()) != 1 {
		t.Errorf("running are %v", m.Running())
	}
}

// Every flag is documented.
func TestOutletsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/reference/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	var fs flag.FlagSet
	new(outlets).flags(&fs)
	fs.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(string(document), "`--"+f.Name+"`") {
			t.Errorf("docs/reference/agent.md does not say what --%s is", f.Name)
		}
	})
}

// By default, metrics are served over TLS and only to users that the API server allows. Health is served to
// anybody, on a port of its own.
func TestMetricsBehindTheAuthFilter(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certificate(t, cert, key)
	for _, c := range []struct {
		what, scheme string
		args         []string
		want         int
	}{
		{"by default", "https", nil, 401},
		{"with a certificate", "https",
			[]string{"--metrics-tls-cert-file", cert, "--metrics-tls-private-key-file", key}, 401},
		{"switched off", "http", []string{"--metrics-authorization=false"}, 200},
	} {
		metrics, health := free(t), free(t)
		cfg, err := opened(t, append(c.args, "--metrics-address", metrics, "--health-address", health)...)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Health == nil {
			t.Errorf("%s: no health is recorded", c.what)
		}
		for url, want := range map[string]int{c.scheme + "://" + metrics + "/metrics": c.want,
			"http://" + health + "/livez": 200, "http://" + health + "/readyz": 503, "http://" + health + "/metrics": 404} {
			if got := status(t, url); got != want {
				t.Errorf("%s: %s is answered %d, want %d", c.what, url, got, want)
			}
		}
	}
}

// free returns an address that is not in use.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func status(t *testing.T, url string) int {
	t.Helper()
	insecure := &tls.Config{InsecureSkipVerify: true}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: insecure}}
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// certificate writes a certificate with its key.
func certificate(t *testing.T, certFile, keyFile string) {
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
}
