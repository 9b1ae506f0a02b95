package capacity

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// fill has a pod hold all CPUs of a node but some of NUMA node 0.
func (w *world) fill(node string, free int) {
	n := w.book.Snapshot().Node(node)
	var cpus idset.Set[idset.CPU]
	for _, x := range n.Machine.NUMAs() {
		cpus = cpus.Union(x.CPUs)
	}
	cpus = cpus.Minus(idset.Of(n.Machine.NUMAs()[0].CPUs.List()[:free]...))
	w.book.Report(node, state.Layout{Machine: n.Machine, Rules: n.Rules, Entries: []state.Entry{{
		Pod: state.PodID{Namespace: "ml", Name: "on-" + node, UID: "on-" + node}, Source: state.Observed,
		Holdings: []place.Holding{{Container: "c", CPUs: cpus}}}}})
}

// BenchmarkAnswers is the time from a change of a node to the answer that follows from it, while requests of many
// shapes wait on a full cluster of 30 pods on each node: each change makes room for one of them.
func BenchmarkAnswers(b *testing.B) {
	for _, nodes := range []int{100, 5000} {
		for _, waiting := range []int{1, 1000} {
			b.Run(fmt.Sprintf("nodes=%d/waiting=%d", nodes, waiting), func(b *testing.B) {
				w := newWorld(b, nodes, 64)
				for i := range nodes {
					name := fmt.Sprintf("n%04d", i)
					w.fill(name, 0)
					for k := range 30 {
						w.pods = append(w.pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml",
							Name: fmt.Sprint(name, "-", k), UID: types.UID(fmt.Sprint(name, "-", k))},
							Spec: v1.PodSpec{NodeName: name, Containers: []v1.Container{{Name: "c",
								Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("100m"),
									"memory": resource.MustParse("1Gi")}}}}}})
					}
				}
				for i := range waiting {
					name := fmt.Sprint("r", i)
					w.ask(name, 1+i%2, 11+i%50)
					limits := w.templates[name].Template.Spec.Containers[0].Resources.Limits
					limits["memory"] = *resource.NewQuantity(int64(i+1)<<20, resource.BinarySI) // each is of its own kind
				}
				for range 3 {
					w.time = w.time.Add(time.Second)
					w.round(b.Context())
				}
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					node, name := fmt.Sprintf("n%04d", i%nodes), fmt.Sprint("new", i)
					w.time = w.time.Add(time.Second)
					w.ask(name, 1, 10)
					w.round(b.Context())
					w.fill(node, 10)
					began := time.Now()
					w.round(b.Context())
					took = append(took, time.Since(began))
					if w.said(name, provisioning.Provisioned)[:4] != "True" {
						b.Fatal(w.said(name, provisioning.Provisioned))
					}
					o, _, _ := w.objects.GetByKey("ml/" + name)
					_ = w.objects.Delete(o)
					w.round(b.Context())
					w.fill(node, 0)
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-ms")
			})
		}
	}
}

// Why requests have no room is searched anew for a tenth of the time at most, however many wait: other pods need the
// CPU. Each request has its turn.
func TestReasonsAreRenewedSparingly(t *testing.T) {
	w := newWorld(t, 1, 8)
	for i := range 40 {
		w.ask(fmt.Sprint("large", i), 3, 8)
	}
	w.Controller.now = func() time.Time { // whatever is done takes time
		w.time = w.time.Add(time.Millisecond)
		return w.time
	}
	since := func(due time.Time) (rounds int) {
		for ; rounds < 1000; rounds++ {
			w.round(t.Context())
			w.time = w.time.Add(pause)
			old := 0
			for _, r := range w.known {
				if r.explained.Before(due) {
					old++
				}
			}
			if old == 0 {
				return rounds + 1
			}
		}
		t.Fatal("some reasons are not searched")
		return 0
	}
	first := since(w.time)
	w.time = w.time.Add(explaining)
	if again := since(w.time); again < 5*first {
		t.Errorf("all reasons were renewed in %d rounds; the first were found in %d rounds", again, first)
	}
}
