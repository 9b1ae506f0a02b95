package monitoring_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	authenticationapi "k8s.io/api/authentication/v1"
	authorizationapi "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/authfilter"
	"github.com/tenon-numa/tenon/node/cgroup"
	"github.com/tenon-numa/tenon/node/metrics"
)

const gi = 1 << 30

// published is the state of a node with two NUMA nodes, hugepages, a device and a pod that holds some of each.
func published(t *testing.T) *state.Node {
	t.Helper()
	m, err := topo.ParseMachine(`
numa 0 cpus 0-3 memory 16Gi hugepages-1Gi 4
numa 8 cpus 4-7 memory 16Gi
distances 10 21
distances 21 10
device x.io/nic a,b numa 0
`)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{
		Topology: place.TopologyRules{Policy: place.Restricted},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0)},
		Memory:   place.MemoryRules{Static: true, Reserved: []place.Reserved{{NUMA: 0, Kind: "memory", Bytes: gi}}},
	}
	held := place.Holding{Container: "app", CPUs: idset.Of[idset.CPU](4, 5),
		Memory:  []place.Block{{Kind: "memory", NUMAs: 2, Bytes: 4 * gi}, {Kind: "hugepages-1Gi", NUMAs: 1, Bytes: gi}},
		Devices: []place.DeviceBlock{{Resource: "x.io/nic", IDs: []string{"a"}, NUMAs: 1}}}
	return &state.Node{Machine: m, Rules: r, Usage: place.NewUsage(m, r).Hold(held),
		Entries: []state.Entry{{Pod: state.PodID{UID: "u", Namespace: "shop", Name: "db"},
			Holdings: []place.Holding{held}}}}
}

// kernel is a tree of /sys whose counters are higher at every look.
type kernel struct {
	looks atomic.Int64
	also  func() // at every look
}

func (k *kernel) Open(name string) (fs.File, error) {
	n := k.looks.Add(1)
	k.also()
	return fstest.MapFS{name: {Data: fmt.Appendf(nil,
		"numa_hit %d\nnuma_miss %d\nnuma_foreign %d\ninterleave_hit %d\nlocal_node %d\nother_node %d\n",
		90*n, 10*n, 10*n, n, 80*n, 20*n)}}.Open(name)
}

// cgroups has one container, which runs on NUMA node 8 and has a quarter of its memory on NUMA node 0.
type cgroups struct{ *cgroup.Tree }

func (cgroups) Running() []cgroup.Container {
	return []cgroup.Container{{Namespace: "shop", Pod: "db", Name: "app", UID: "u", QOS: v1.PodQOSGuaranteed,
		ID: "containerd://1"},
		{Namespace: "shop", Pod: "db", Name: "gone", UID: "u", QOS: v1.PodQOSGuaranteed, ID: "containerd://2"}}
}

// agent returns an agent's metrics. At every scrape it has looked and written a few times more.
func agent(t *testing.T, node string) *metrics.Metrics {
	t.Helper()
	tree, err := cgroup.Open(fstest.MapFS{"cgroup.controllers": {},
		"kubepods/podu/1/memory.numa_stat":      {Data: fmt.Appendf(nil, "anon N0=%d N8=%d\nfile N0=0 N8=0\n", gi, 3*gi)},
		"kubepods/podu/1/cpuset.cpus.effective": {Data: []byte("4,5")}}, "")
	if err != nil {
		t.Fatal(err)
	}
	k := &kernel{}
	m, err := metrics.New(metrics.Options{Node: node, Sys: k, Pods: 10, Memory: cgroups{tree}, Containers: 10})
	if err != nil {
		t.Fatal(err)
	}
	k.also = func() {
		m.RecordReconcile(30*time.Millisecond, true, errors.New("the kubelet is away"))
		m.RecordWrite("NodeLayout", nil)
		m.RecordWrite("NodeLayout", errors.New("the API server is away"))
	}
	m.RecordNode(published(t), 1)
	return m
}

// serve serves an agent's metrics, by TLS where cert is not empty, until the test ends.
func serve(t *testing.T, m *metrics.Metrics, cert, key string, guard func(http.Handler) http.Handler) (address string) {
	t.Helper()
	h, err := m.Handler(guard)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(address string, h http.Handler) (*metrics.Server, error) {
		return metrics.Listen(address, cert, key, h)
	}
	if cert == "" {
		listen = func(address string, h http.Handler) (*metrics.Server, error) {
			return metrics.ListenSelfSigned(address, "agent", h)
		}
	}
	s, err := listen("127.0.0.1:0", h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Address()
}

const token = "of-prometheus"

// guard lets pass whom an API server allows that knows one token.
func guard(t *testing.T) func(http.Handler) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var in authenticationapi.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&in)
		in.Status.Authenticated, in.Status.User.Username = in.Spec.Token == token, "prometheus"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(in)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
		func(w http.ResponseWriter, r *http.Request) {
			var in authorizationapi.SubjectAccessReview
			_ = json.NewDecoder(r.Body).Decode(&in)
			in.Status.Allowed = in.Spec.NonResourceAttributes.Path == "/metrics" && in.Spec.NonResourceAttributes.Verb == "get"
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(in)
		})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	g, err := authfilter.New(
		&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		logr.Discard(),
	)
	if err != nil {
		t.Fatal(err)
	}
	return g.Wrap
}

// certificate writes ca.crt, a certificate of 127.0.0.1 with its authority, and its key.
func certificate(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	chain, secret, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.key")
	write(t, certFile, chain)
	write(t, keyFile, secret)
	return certFile, keyFile
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
