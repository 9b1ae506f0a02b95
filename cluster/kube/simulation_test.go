package kube

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"pgregory.net/rapid"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// exporting is a node whose kubelet admits bound pods at once, and whose exporter writes from time to time. The feed
// receives both in order, with a delay.
type exporting struct {
	book    *ledger.Book
	feed    *Feed
	version int
	usage   *place.Usage
	empty   *place.Usage
	pods    []state.Entry
	objects map[string]*v1.Pod
	// events and written are in transit to the feed.
	events  []func()
	written []*v1alpha2.NodeResourceTopology
}

func newExporting(t *rapid.T) *exporting {
	r, err := nrt.Read(topologyOf("n", 1, 8, 8))
	if err != nil {
		t.Fatal(err)
	}
	e := &exporting{book: ledger.New(), version: 1, objects: map[string]*v1.Pod{}}
	e.empty = place.NewUsage(r.Machine, r.Rules)
	e.usage = e.empty
	e.feed = NewFeed(e.book, nil, nil)
	e.feed.later = func(time.Duration, func()) {}
	e.feed.Begin()
	e.feed.Topology(signed(topologyOf("n", e.version, 8, 8)))
	return e
}

// bind places a pod as a scheduler does, if it fits in the ledger.
func (e *exporting) bind(t *rapid.T, name string, n int) {
	pod := cpus(name, n)
	p, err := apipod.ToPlace(pod)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := e.book.Reserve("n", ID(pod), p, place.Demand{}); !ok || !v.Fits() {
		return
	}
	v, wait, err := e.book.Turn(string(pod.UID), 0)
	if err != nil || wait != nil || !v.Fits() {
		e.book.Unreserve(string(pod.UID))
		return
	}
	truth := place.Place(e.usage, p)
	if !truth.Fits() {
		t.Fatalf("the kubelet refuses pod %s of %d CPUs: %s; it holds %v", name, n, amounts(e.book, "n"), e.pods)
	}
	e.pods = append(e.pods, state.Entry{Pod: ID(pod), Holdings: truth.Holdings})
	e.objects[name] = pod
	e.hold()
	e.events = append(e.events, func() { e.feed.Pod(pod) }, func() { e.feed.Pod(start(pod)) })
}

func (e *exporting) hold() {
	e.usage = e.empty
	for _, p := range e.pods {
		e.usage = e.usage.Hold(p.Holdings...)
	}
}

// end ends a pod.
func (e *exporting) end(i int) {
	pod := start(e.objects[e.pods[i].Pod.Name])
	pod.Status.Phase = v1.PodSucceeded
	e.pods = slices.Delete(slices.Clone(e.pods), i, i+1)
	e.hold()
	e.events = append(e.events, func() { e.feed.PodGone(pod) })
}

// export makes the exporter write the present state.
func (e *exporting) export() {
	e.version++
	var free []int64
	for _, numa := range e.usage.Machine.NUMAs() {
		free = append(free, int64(numa.CPUs.AndLen(e.usage.FreeCPUs())))
	}
	var names []string
	for _, p := range e.pods {
		names = append(names, p.Pod.Name)
	}
	e.written = append(e.written, signed(topologyOf("n", e.version, free...), names...))
}

// However late events arrive, a pod that fits is admitted; and once all have arrived, the resources that seem free are
// free.
func TestPodsThatFitAreAdmitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newExporting(t)
		next := 0
		hear := func() {
			if len(e.events) > 0 {
				e.events[0]()
				e.events = e.events[1:]
			}
		}
		read := func() {
			if len(e.written) > 0 {
				e.feed.Topology(e.written[0])
				e.written = e.written[1:]
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"bind": func(t *rapid.T) {
				next++
				e.bind(t, fmt.Sprint("p", next), rapid.IntRange(1, 6).Draw(t, "cpus"))
			},
			"end": func(t *rapid.T) {
				if len(e.pods) > 0 {
					e.end(rapid.IntRange(0, len(e.pods)-1).Draw(t, "which"))
				}
			},
			"export": func(*rapid.T) { e.export() },
			"hear":   func(*rapid.T) { hear() },
			"read":   func(*rapid.T) { read() },
			"":       func(*rapid.T) {},
		})
		for len(e.events) > 0 {
			hear()
		}
		for len(e.written) > 0 {
			read()
		}
		e.export()
		read()
		n := e.book.Snapshot().Node("n")
		for i, numa := range e.usage.Machine.NUMAs() {
			got, want := n.Machine.NUMAs()[i].CPUs.AndLen(n.Usage.FreeCPUs()), numa.CPUs.AndLen(e.usage.FreeCPUs())
			if got != want {
				t.Fatalf("%s, and %d of NUMA node %d are free; the kubelet holds %v", amounts(e.book, "n"), want, numa.ID, e.pods)
			}
		}
	})
}
