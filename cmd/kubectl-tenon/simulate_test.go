package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
)

// asked is simulated on a cluster whose NUMA nodes have 4, 6, 14 and 14 free CPUs, and two free NICs each except the
// first. Five pods with 5 CPUs fit, which leaves 4, 1, 4 and 4 CPUs. Four pods with 2 CPUs and a NIC fit, because the
// second NUMA node has no CPUs left and the first no NICs. Plain pods fit anywhere. So the numbers do not depend on the
// order of nodes.
const asked = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: wide}
spec:
  replicas: 7
  selector: {matchLabels: {app: wide}}
  template:
    metadata: {labels: {app: wide}}
    spec:
      containers:
      - name: c
        image: i
        resources: {limits: {cpu: 5, memory: 2Gi}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: nic}
spec:
  replicas: 5
  selector: {matchLabels: {app: nic}}
  template:
    metadata: {labels: {app: nic}}
    spec:
      containers:
      - name: c
        image: i
        resources: {limits: {cpu: 2, memory: 1Gi, acme.com/nic: 1}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: web}
spec:
  parallelism: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: i
        resources: {requests: {cpu: 500m, memory: 512Mi}}
`

func create(n int, name string, c v1.Container) (out []*v1.Pod) {
	for i := range n {
		out = append(out, workload.Pod(fmt.Sprintf("%s-%d", name, i), c))
	}
	return out
}

// simulation is the part of "simulate -o json" that the test checks.
type simulation struct {
	Fits   bool
	Rounds []struct {
		Workloads []struct {
			Name                    string
			Wanted, Placed, NoPlace int
			Refusals                []struct{ Nodes []string }
		}
	}
	NotKnown []any
}

// simulates runs simulate against an API server that refuses changes, and then checks that the prediction comes true.
func simulates(ctx context.Context, t *testing.T, c *lab.Cluster) {
	readOnly, seen := guard(t, c)
	file := filepath.Join(t.TempDir(), "asked.yaml")
	if err := os.WriteFile(file, []byte(asked), 0o600); err != nil {
		t.Fatal(err)
	}
	simulate := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		args = append([]string{"simulate"}, args...)
		if code := cli.Run(ctx, args, &out, &errs, setup("test")); code != want || errs.Len() > 0 {
			t.Fatalf("%s: exit code %d, want %d: %s", strings.Join(args, " "), code, want, errs.String())
		}
		return out.String()
	}
	text := simulate(cli.ExitNo, "-f", file, "-o", "json", "--kubeconfig", readOnly)
	if again := simulate(cli.ExitNo, "-f", file, "-o", "json", "--nodes", exportOf(ctx, t, c)); again != text {
		t.Errorf("what was exported gives\n%s\nthe cluster gave\n%s", again, text)
	}
	if out := simulate(0, "--pod", "run-2", "--count", "max", "--kubeconfig", readOnly); !strings.Contains(out,
		"\nPod default/run-2   2 ") {
		t.Errorf("two more of run-2 fit on NUMA nodes with 4, 6, 14 and 14 free CPUs, but not here:\n%s", out)
	}
	simulate(0, "--without", grants(ctx, t, c)["run-1"].node, "--map", "--kubeconfig", readOnly)
	if methods := seen(); len(methods) == 0 || slices.ContainsFunc(methods,
		func(m string) bool { return m != http.MethodGet }) {
		t.Errorf("the API server was asked for %v, want reading alone", methods)
	}
	var s simulation
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	happens(ctx, t, c, s)
	allocatable(ctx, t, c)
}

// happens creates the simulated pods, and compares their nodes with the prediction.
func happens(ctx context.Context, t *testing.T, c *lab.Cluster, s simulation) {
	want := map[string][2]int{"wide": {5, 2}, "nic": {4, 1}, "web": {3, 0}}
	for _, w := range s.Rounds[0].Workloads {
		if got := [2]int{w.Placed, w.NoPlace}; got != want[w.Name] {
			t.Errorf("%s: %d pods placed and %d without a place, want %v", w.Name, w.Placed, w.NoPlace, want[w.Name])
		}
		if w.NoPlace > 0 && len(w.Refusals) == 0 {
			t.Errorf("%s: nobody says why %d pods have no place", w.Name, w.NoPlace)
		}
	}
	if s.Fits || len(s.Rounds) != 1 || len(s.Rounds[0].Workloads) != 3 || len(s.NotKnown) != 0 {
		t.Errorf("simulated %+v", s)
	}
	user := kubernetes.NewForConfigOrDie(c.RESTConfig())
	watch, err := workload.Follow(ctx, user)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	before, _ := watch.Pods()
	total := len(before)
	// One kind after the other, as they were simulated.
	for _, pods := range [][]*v1.Pod{
		create(7, "wide", workload.Guaranteed("c", workload.Amounts{"cpu": "5", "memory": "2Gi"})),
		create(5, "nic", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "1Gi", "acme.com/nic": "1"})),
		create(3, "web", workload.Burstable("c", workload.Amounts{"cpu": "500m", "memory": "512Mi"}, nil)),
	} {
		if err := workload.Create(ctx, user, pods...); err != nil {
			t.Fatal(err)
		}
		total += len(pods)
		if _, err := watch.Until(ctx, workload.Settled(total)); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string][2]int{}
	after, _ := watch.Pods()
	for _, p := range after {
		name, _, _ := strings.Cut(p.Name, "-")
		n := got[name]
		switch f, why := workload.FateOf(p); f {
		case workload.Running:
			n[0]++
		case workload.Pending:
			n[1]++
		default:
			t.Errorf("pod %s is %s: %s", p.Name, f, why)
		}
		got[name] = n
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d pods run and %d wait, simulated were %v", name, got[name][0], got[name][1], n)
		}
	}
}

// guard returns a kubeconfig for an API server that refuses all requests but reads, and a function that returns the
// received requests.
func guard(t *testing.T, c *lab.Cluster) (kubeconfig string, seen func() []string) {
	cfg := c.RESTConfig()
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(to)
	if behind.Transport, err = rest.TransportFor(cfg); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var methods []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		methods = append(methods, r.Method)
		mu.Unlock()
		if r.Method != http.MethodGet {
			http.Error(w, "reading alone is allowed", http.StatusForbidden)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {}}],
		"clusters": [{"name": "x", "cluster": {"server": %q}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(methods)
	}
}

// exportOf writes a file of all nodes, pods and layouts.
func exportOf(ctx context.Context, t *testing.T, c *lab.Cluster) string {
	user := kubernetes.NewForConfigOrDie(c.RESTConfig())
	var out bytes.Buffer
	for _, path := range []string{"/api/v1/nodes", "/api/v1/pods", "/apis/tenon.sh/v1alpha1/nodelayouts",
		"/apis/tenon.sh/v1alpha1/layoutbases"} {
		text, err := user.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s\n", text)
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// allocatable compares the predicted allocatable of a machine and a configuration with a kubelet's.
func allocatable(ctx context.Context, t *testing.T, c *lab.Cluster) {
	m, err := topo.ParseMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := setup("test").Stages.Kubelet([]byte(config), m)
	if err != nil {
		t.Fatal(err)
	}
	n, err := kubernetes.NewForConfigOrDie(c.RESTConfig()).CoreV1().Nodes().Get(ctx, c.Nodes[0].Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range n.Status.Allocatable {
		want := q.Value()
		if name == v1.ResourceCPU {
			want = q.MilliValue()
		}
		if _, known := got[string(name)]; name != v1.ResourceEphemeralStorage && (known || want > 0) &&
			got[string(name)] != want {
			t.Errorf("of %s pods may have %d, the kubelet says %d", name, got[string(name)], want)
		}
	}
}
