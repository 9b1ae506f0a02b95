package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/node/nrt"
)

// freeCPUs returns the free CPUs of each zone of an object.
func freeCPUs(o *v1alpha2.NodeResourceTopology) (out string) {
	for _, z := range o.Zones {
		for _, r := range z.Resources {
			if r.Name == "cpu" {
				out += z.Name + "=" + r.Available.String() + " "
			}
		}
	}
	return out
}

// awaitZones returns the first written object with these free CPUs.
func awaitZones(t *testing.T, a *api, want string) *v1alpha2.NodeResourceTopology {
	t.Helper()
	deadline, last := time.After(60*time.Second), "nothing"
	for {
		select {
		case o := <-a.zonesSent:
			if last = freeCPUs(o); last == want {
				return o
			}
		case <-deadline:
			t.Fatalf("free CPUs %s were not written; the last were %s", want, last)
		}
	}
}

func withZones(t *testing.T, cfg Config, log logr.Logger) Config {
	t.Helper()
	p, err := nrt.NewPublisher(cfg.REST, cfg.Labels, log)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Publisher = p
	return cfg
}

func TestZonesArePublishedBesideTheLayout(t *testing.T) {
	a, rc := newAPI(t)
	a.install()
	n := newNode(t, "node-a")
	start(t, withZones(t, n.config(rc, logr.Discard()), logr.Discard()))
	first := awaitZones(t, a, "node-0=3 node-1=4 ")
	o := first.OwnerReferences
	if len(o) != 1 || o[0].Kind != "Node" || o[0].Name != "node-a" || o[0].UID != "uid-of-node" {
		t.Errorf("owners are %+v", o)
	}
	a.addPod(t, n.pod("p", 1))
	n.service.SetPods(listed("p"))
	n.cpus(`{"uid-p":{"main":"5-6"}}`)
	awaitZones(t, a, "node-0=3 node-1=2 ")
}

func TestUnchangedZonesAreNotWritten(t *testing.T) {
	a, rc := newAPI(t)
	a.install()
	n := newNode(t, "node-a")
	reconcile := func(r *reconciler, want int, what string) {
		t.Helper()
		if _, err := r.reconcile(t.Context(), true); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := len(a.zonesSent); got != want {
			t.Fatalf("%s: %d writes of zones, want %d", what, got, want)
		}
	}
	r := newTestReconciler(t, withZones(t, n.config(rc, logr.Discard()), logr.Discard()))
	reconcile(r, 1, "first reconcile")
	reconcile(r, 1, "second reconcile")
	second := newTestReconciler(t, withZones(t, n.config(rc, logr.Discard()), logr.Discard()))
	reconcile(second, 1, "a new agent on the same node")
	a.mu.Lock()
	delete(a.topologies, "node-a")
	a.mu.Unlock()
	reconcile(r, 2, "deleted object")
}

// Without the kind nothing fails, and the log reports it once. When the kind appears, the next full reconcile writes.
func TestZonesWithoutTheirKind(t *testing.T) {
	a, rc := newAPI(t)
	n := newNode(t, "node-a")
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	r := newTestReconciler(t, withZones(t, n.config(rc, logr.Discard()), log))
	for range 3 {
		if _, err := r.reconcile(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 1 || len(a.written) != 1 {
		t.Errorf("%d layouts written, logged %q", len(a.written), lines)
	}
	a.install()
	for _, full := range []bool{false, true} {
		if _, err := r.reconcile(t.Context(), full); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 2 || len(a.zonesSent) != 1 {
		t.Errorf("kind is there: %d writes of zones, logged %q", len(a.zonesSent), lines)
	}
}

// broken is a publisher that cannot publish.
type broken struct{}

func (broken) Object() string { return "Broken" }

func (broken) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "brokens"}
}

func (broken) Publish(context.Context, *state.Node, metav1.ObjectMeta, *metav1.GetOptions) (
	metav1.Object, bool, error) {
	return nil, false, errors.New("down")
}

// recorder is a Recorder that counts.
type recorder struct {
	sequence   int64
	reconciles atomic.Int64 // read while an agent runs
	wrote      map[string]int
	failed     map[string]int
}

func (r *recorder) RecordNode(_ *state.Node, sequence int64) { r.sequence = sequence }

func (r *recorder) RecordWrite(object string, err error) {
	if err != nil {
		r.failed[object]++
	} else {
		r.wrote[object]++
	}
}

func (r *recorder) RecordReconcile(time.Duration, bool, error) { r.reconciles.Add(1) }

func TestLayoutIsWrittenWhateverThePublisherDoes(t *testing.T) {
	a, rc := newAPI(t)
	cfg := newNode(t, "node-a").config(rc, logr.Discard())
	rec := &recorder{wrote: map[string]int{}, failed: map[string]int{}}
	cfg.Publisher, cfg.Recorder = broken{}, rec
	wrote, err := newTestReconciler(t, cfg).reconcile(t.Context(), true)
	if !wrote || err == nil || len(a.written) != 1 {
		t.Errorf("wrote %v, error %v, %d layouts", wrote, err, len(a.written))
	}
	if rec.sequence != 2 || rec.wrote["NodeLayout"] != 1 || rec.failed["Broken"] != 1 {
		t.Errorf("recorder received %+v", rec)
	}
}

// A delayed write may be executed at any time. Readers must recognise it as old by its sequence, so another write
// follows, even if the content is as before.
func TestDelayedWrite(t *testing.T) {
	for _, next := range []string{"7", "5"} {
		a, rc := newAPI(t)
		n := newNode(t, "node-a")
		n.service.SetPods(listed("x"))
		a.addPod(t, n.pod("x", 10))
		r := newTestReconciler(t, n.config(rc, logr.Discard()))
		reconcile := func(cpu string, fails bool) {
			t.Helper()
			n.cpus(`{"uid-x":{"main":"` + cpu + `"}}`)
			if _, err := r.reconcile(t.Context(), !r.state.Facts.Known()); (err != nil) != fails {
				t.Fatalf("CPU %s: error %v", cpu, err)
			}
		}
		reconcile("5", false)
		a.holdNext()
		reconcile("6", true)
		reconcile(next, false)
		if got := a.whole("node-a"); held(got) != "ns/x="+next || got.Sequence <= a.held.Sequence {
			t.Errorf("%s with sequence %d is published, while %s with %d is delayed",
				held(got), got.Sequence, held(a.held), a.held.Sequence)
		}
		writes := a.writes
		reconcile(next, false)
		if a.writes != writes {
			t.Error("what is published is written again")
		}
	}
}

// A write whose answer was lost counts as executed: a change back to the content before it is written too, and
// sequences keep growing.
func TestLostAnswer(t *testing.T) {
	a, rc := newAPI(t)
	n := newNode(t, "node-a")
	n.service.SetPods(listed("x"))
	a.addPod(t, n.pod("x", 10))
	r := newTestReconciler(t, n.config(rc, logr.Discard()))
	for _, step := range []struct {
		cpu  string
		lose bool
	}{{"5", false}, {"6", true}, {"5", false}} {
		n.cpus(`{"uid-x":{"main":"` + step.cpu + `"}}`)
		if step.lose {
			a.loseNext(1)
		}
		if _, err := r.reconcile(t.Context(), !r.state.Facts.Known()); (err != nil) != step.lose {
			t.Fatalf("CPU %s: error %v", step.cpu, err)
		}
	}
	if len(a.written) != 3 {
		t.Fatalf("%d writes, want 3", len(a.written))
	}
	var last *v1alpha1.NodeLayout
	for range 3 {
		last = <-a.written
	}
	if held(last) != "ns/x=5" || last.Sequence != 4 {
		t.Errorf("last layout has sequence %d and %s", last.Sequence, held(last))
	}
}
