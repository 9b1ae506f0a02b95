package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/cluster/manifest"
)

// queue makes who wait for a turn, and records the order of service.
func (t *turns) queue(test *testing.T, who string, served chan<- string) {
	test.Helper()
	before := t.waits()
	go func() {
		leave, err := t.enter(test.Context(), who)
		if err == nil {
			served <- who
			leave()
		}
	}()
	for t.waits() == before {
		runtime.Gosched()
	}
}

func (t *turns) waits() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.queues {
		n += len(q)
	}
	return n
}

// Of 100 hostile requests and one honest one that comes last, the honest one is served next, or after the requests of
// other people who were not served before.
func TestAnHonestPersonIsServedBetweenManyHostileRequests(t *testing.T) {
	for _, people := range []int{1, 3} {
		x := newTurns(1, 1, 200)
		leave, err := x.enter(t.Context(), "evil-0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan string, 101)
		for i := range 100 {
			x.queue(t, fmt.Sprint("evil-", i%people), served)
		}
		x.queue(t, "honest", served)
		leave()
		var order []string
		for range 101 {
			order = append(order, <-served)
		}
		if at := slices.Index(order, "honest"); at > people-1 {
			t.Errorf("after %d answers to %d hostile people, the honest one is served: %v", at, people, order[:at])
		}
	}
}

// Where two answers are computed at a time, one person takes at most one place.
func TestOnePersonLeavesAPlaceFree(t *testing.T) {
	x := newTurns(2, 1, 1)
	first, err := x.enter(t.Context(), "evil")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.enter(ended, "evil"); err == nil {
		t.Error("one person has both places")
	}
	other, err := x.enter(ended, "honest") // does not wait
	if err == nil {
		other()
	}
	first()
	if len(x.held) > 0 || len(x.queues) > 0 || len(x.order) > 0 || x.busy != 0 {
		t.Errorf("when all have left, %+v is left", x)
	}
}

// Streams of one person end in favour of other people's, never the other way round.
func TestOnePersonLeavesStreamsFree(t *testing.T) {
	var s streams
	var contexts []context.Context
	for range maxStreams {
		ctx, _, ok := s.begin(t.Context(), "evil")
		if !ok {
			t.Fatal("a stream does not begin though there is room")
		}
		contexts = append(contexts, ctx)
	}
	if _, _, ok := s.begin(t.Context(), "evil"); ok {
		t.Error("a stream begins beyond the bound")
	}
	honest, end, ok := s.begin(t.Context(), "honest")
	if !ok || contexts[0].Err() == nil || contexts[1].Err() != nil {
		t.Fatalf("another person's stream begins: %t", ok)
	}
	if _, _, ok := s.begin(t.Context(), "evil"); ok || honest.Err() != nil {
		t.Error("a person takes the stream of another one")
	}
	if end(); len(s.all) != maxStreams-1 {
		t.Errorf("%d streams are left", len(s.all))
	}
}

// allocated returns the bytes that a function allocates in total; the memory in use at a time is less.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Bodies of the largest size with the smallest values fit in the memory that the console reserves for them.
func TestBodiesOfSmallValuesTakeLittleMemory(t *testing.T) {
	plan := func(head, one, tail string) string {
		return head + strings.Repeat(one+",", (maxPlanBody-len(head)-len(tail))/(len(one)+1)-1) + one + tail
	}
	for name, body := range map[string]string{
		"nodes":  plan(`{"plan":{"nodes":[`, `{}`, `]}}`),
		"pods":   plan(`{"plan":{"nodes":[{"name":"a","pods":[`, `{}`, `]}]}}`),
		"moves":  plan(`{"plan":{"moves":[`, `{}`, `]}}`),
		"shapes": plan(`{"plan":{"shapes":[`, `{}`, `]}}`),
		"limits": plan(`{"plan":{"limits":[`, `{}`, `]}}`),
		"diff":   plan(`{"plan":{"nodes":[{"name":"a","diff":[`, `""`, `]}]}}`),
		"errors": plan(`{"plan":{"nodes":[{"name":"a","errors":[`, `""`, `]}]}}`),
		"memory": plan(`{"plan":{"nodes":[{"name":"a","after":{"reservedMemory":[`, `{}`, `]}}]}}`),
	} {
		if got := allocated(func() { _, _ = decodePlan([]byte(body)) }); got > 80<<20 {
			t.Errorf("a plan of small %s allocates %d MiB", name, got>>20)
		}
	}
	spec := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[`
	manifests := map[string]string{
		"JSON":   spec + strings.Repeat("{},", 340_000) + "{}]}}",
		"YAML":   "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n" + strings.Repeat("  -\n", 250_000),
		"flow":   "apiVersion: v1\nkind: Pod\nspec:\n  containers: [" + strings.Repeat("{},", 340_000) + "]",
		"CR":     "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n" + strings.Repeat("  -\r", 250_000),
		"nested": "a:\n " + strings.Repeat("- ", 500_000),
		"bytes by aliases": "apiVersion: v1\nkind: Pod\na: &a \"" + strings.Repeat("x", 500_000) + "\"\nb: [" +
			strings.Repeat("*a,", 10_000) + "]",
		"values by aliases": "apiVersion: v1\nkind: Pod\nx: &a [" + strings.Repeat("{},", 30_000) + "]\n" +
			"spec: {containers: *a, initContainers: *a}\n",
		"lines":   "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n" + strings.Repeat("  -\n", maxValues/2-10),
		"bounded": spec + strings.Repeat("{},", maxValues/2-10) + "{}]}}",
	}
	for name, body := range manifests {
		got := allocated(func() {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/yaml")
			x := route{body: "application/yaml", maxBody: maxManifest}
			if text, err := x.readBody(httptest.NewRecorder(), r); err == nil {
				_, _ = manifest.Read(text)
			} else if name == "bounded" {
				t.Error(err)
			}
		})
		t.Logf("%s: %d MiB", name, got>>20)
		if got > 128<<20 { // 113 MiB, and 120 under the race detector
			t.Errorf("a manifest of small values as %s allocates %d MiB", name, got>>20)
		}
	}
}

// A large manifest as people write it is accepted.
func TestAManifestOfManyWorkloadsIsAccepted(t *testing.T) {
	one := `---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: trainer
  labels: {app.kubernetes.io/name: trainer, app.kubernetes.io/part-of: training}
spec:
  replicas: 3
  selector: {matchLabels: {app: trainer}}
  template:
    metadata: {labels: {app: trainer}}
    spec:
      containers:
      - name: trainer
        image: registry.example.com/training/trainer:v1.2.3
        command: ["python", "-m", "train", "--epochs", "12"]
        resources: {limits: {cpu: "8", memory: 32Gi, nvidia.com/gpu: "2"}}
`
	body := strings.Repeat(one, maxManifest/len(one))
	if n := values([]byte(body)); n > maxValues {
		t.Errorf("%d workloads in %d bytes count as %d values, more than %d", maxManifest/len(one), len(body), n, maxValues)
	}
}
