package plugin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/api/document"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/metrics"
)

// remembering returns a plugin that records decisions, and the source that shows them.
func remembering(t testing.TB, args string) (*Plugin, inspect.Source) {
	t.Helper()
	book, ready := ledger.New(), make(chan struct{})
	close(ready)
	s := &Shared{Book: book, Ready: ready, Decisions: inspect.NewDecisions(time.Now), metrics: metrics.NewCounters()}
	s.Feed = kube.NewFeed(book, s.onOutcome, nil)
	s.Feed.Begin()
	p, err := s.Factory(Name)(t.Context(), &runtime.Unknown{Raw: []byte(args)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Plugin), inspect.Source{Book: book, Decisions: s.Decisions, Now: time.Now}
}

// decisions returns what inspection shows.
func decisions(t *testing.T, s inspect.Source, pod *v1.Pod) []document.Decision {
	t.Helper()
	w := httptest.NewRecorder()
	inspect.Handler(s).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, inspect.Prefix+"pods/"+pod.Namespace+"/"+pod.Name, nil))
	if w.Code == http.StatusNotFound {
		return nil
	}
	var out document.PodDecisions
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return out.Decisions
}

func TestDecisionsAreRemembered(t *testing.T) {
	p, source := remembering(t, refuse)
	p.Feed.Layout(
		layout(t, "full", two, place.SingleNUMA, 1, holding(cpus("x", 10), "0-9"), holding(cpus("y", 10), "16-25")),
	)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 2))
	pod := cpus("p", 12)
	cs := cycle(t, p, pod)
	for _, node := range []string{"n", "full", "none"} {
		filter(t, p, cs, node)
	}
	if _, status := p.Score(t.Context(), cs, pod, nodeInfo("n")); !status.IsSuccess() {
		t.Fatal(status)
	}
	a := decisions(t, source, pod)[0]
	if a.Stage != document.Judged || len(a.Nodes) != 3 {
		t.Fatalf("%+v", a)
	}
	full, n, none := a.Nodes[0], a.Nodes[1], a.Nodes[2]
	if full.Fits || len(full.Reasons) != 1 || full.Reasons[0].Code != string(place.OneNUMA) || full.Reasons[0].Have != 6 {
		t.Errorf("node full: %+v", full)
	}
	if !n.Fits || n.Cost == nil || *n.Cost <= 0 {
		t.Errorf("node n: %+v", n)
	}
	if none.Fits || none.Why != "node has no layout" {
		t.Errorf("node none: %+v", none)
	}
	made := counted(t, p.metrics, "tenon_predictions_made_total")
	fits(t, p.Reserve(t.Context(), cs, pod, "n"))
	if now := counted(t, p.metrics, "tenon_predictions_made_total"); now != made+1 {
		t.Errorf("%v predictions are counted, want %v", now, made+1)
	}
	stage := func(want document.Stage) {
		t.Helper()
		if a := decisions(t, source, pod)[0]; a.Stage != want || a.Node != "n" || a.Predicted[0].CPUs != "0-11" {
			t.Errorf("%+v, want %s", a, want)
		}
	}
	stage(document.Reserved)
	fits(t, p.PreBind(t.Context(), cs, pod, "n"))
	stage(document.Turned)
	p.PostBind(t.Context(), cs, pod, "n")
	stage(document.Bound)
	p.Feed.Pod(bind(pod, "n"))
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 3, p.Book.Snapshot().Node("n").Entries...))
	stage(document.Confirmed)
}

func TestDecisionsThatFail(t *testing.T) {
	p, source := remembering(t, refuse)
	p.Feed.Layout(layout(t, "n", "numa 0 cpus 0-15 memory 64Gi", place.SingleNUMA, 1))
	odd := noted(cpus("odd", 2), apipod.PolicyAnnotation, "strict")
	_, _ = p.PreFilter(t.Context(), framework.NewCycleState(), odd, nil)
	if a := decisions(t, source, odd)[0]; !strings.Contains(a.Why, `unknown value "strict"`) {
		t.Errorf("a pod that is not understood: %+v", a)
	}
	first, second := cpus("first", 10), cpus("second", 10)
	a, b := cycle(t, p, first), cycle(t, p, second)
	fits(t, p.Reserve(t.Context(), a, first, "n"))
	_ = p.Reserve(t.Context(), b, second, "n")
	if d := decisions(t, source, second)[0]; d.Stage != document.Judged ||
		!strings.Contains(d.Why, "node n: cannot align") {
		t.Errorf("a reservation that is refused: %+v", d)
	}
	p.Unreserve(t.Context(), a, first, "n")
	if d := decisions(t, source, first)[0]; d.Stage != document.Released {
		t.Errorf("a pod that is not bound: %+v", d)
	}
	_ = cycle(t, p, first)
	if d := decisions(t, source, first); len(d) != 2 || d[0].Stage != document.Judged {
		t.Errorf("a pod that is tried again: %+v", d)
	}
	plain := podOf("plain", "cpu=1")
	_, _ = p.PreFilter(t.Context(), framework.NewCycleState(), plain, nil)
	if d := decisions(t, source, plain); d != nil {
		t.Errorf("a pod that nobody aligns: %+v", d)
	}
}

// Results during a preemption are about hypothetical nodes.
func TestPreemptionIsNotADecision(t *testing.T) {
	p, source := remembering(t, refuse)
	victim := cpus("victim", 10)
	p.Feed.Layout(layout(t, "n", "numa 0 cpus 0-15 memory 64Gi", place.SingleNUMA, 1, holding(victim, "0-9")))
	pod := cpus("p", 10)
	cs := cycle(t, p, pod)
	filter(t, p, cs, "n")
	dry := cs.Clone()
	fits(t, p.RemovePod(t.Context(), dry, pod, podInfo(t, victim), nodeInfo("n")))
	fits(t, filter(t, p, dry, "n"))
	if a := decisions(t, source, pod)[0]; len(a.Nodes) != 1 || a.Nodes[0].Fits {
		t.Errorf("%+v", a.Nodes)
	}
}

func TestUnknownNodesLetPodsWithoutADemandIn(t *testing.T) {
	p, _ := remembering(t, "unknownNodes: "+config.AllowWithoutDemand)
	for policy, lets := range map[string]bool{"": true, "none": true, "best-effort": true, "restricted": false,
		"single-numa-node": false} {
		pod := cpus("p", 4)
		if policy != "" {
			pod = noted(pod, apipod.PolicyAnnotation, policy)
		}
		cs := cycle(t, p, pod)
		if s := filter(t, p, cs, "none"); s.IsSuccess() != lets {
			t.Errorf("policy %q: %s %s", policy, s.Code(), s.Message())
		}
		hint, err := p.nodeAdded(p.logger, pod, nil, nodeInfo("none").Node())
		if err != nil || (hint == fwk.Queue) != lets {
			t.Errorf("policy %q: a new node wakes the pod: %v, %v", policy, hint == fwk.Queue, err)
		}
	}
}

// counted returns the value of a counter, by its name and the values of its labels.
func counted(t *testing.T, m *metrics.Counters, name string, labels ...string) float64 {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			var values []string
			for _, l := range one.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(values, labels) {
				return one.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no counter %s %v", name, labels)
	return 0
}

// BenchmarkFilter filters 1000 nodes for one pod after another; half of the nodes fit. Recording decisions must not be
// measurable.
func BenchmarkFilter(b *testing.B) {
	for _, remember := range []bool{false, true} {
		b.Run(fmt.Sprintf("remember=%v", remember), func(b *testing.B) {
			p, _ := remembering(b, refuse)
			if !remember {
				p.Decisions = nil
			}
			infos := make([]fwk.NodeInfo, 1000)
			for i := range infos {
				name := fmt.Sprintf("node-%d", i)
				infos[i] = nodeInfo(name)
				var held []state.Entry
				if i%2 == 0 {
					held = append(held, holding(cpus("x", 10), "0-9"), holding(cpus("y", 10), "16-25"))
				}
				p.Feed.Layout(layout(b, name, two, place.SingleNUMA, i+1, held...))
			}
			pod := cpus("p", 12)
			b.ReportAllocs()
			for b.Loop() {
				cs := framework.NewCycleState()
				_, _ = p.PreFilter(b.Context(), cs, pod, nil)
				for _, info := range infos {
					p.Filter(b.Context(), cs, pod, info)
				}
			}
		})
	}
}
