package metrics

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/scheduler/inspect"
)

// reporting returns a ledger with the layouts of some nodes.
func reporting(t *testing.T, layouts ...*v1alpha1.NodeLayout) *ledger.Book {
	t.Helper()
	book := ledger.New()
	feed := kube.NewFeed(book, nil, nil)
	feed.Begin()
	for _, l := range layouts {
		feed.Layout(l)
	}
	return book
}

func layout(t *testing.T, node string, policy place.Policy, version int) *v1alpha1.NodeLayout {
	t.Helper()
	return kubetest.Layout(t, node, kubetest.Two, policy, version)
}

func holding(n int, cpus string) state.Entry { return kubetest.Holding(kubetest.CPUs("p", n), cpus) }

func inexact(l *v1alpha1.NodeLayout, codes ...state.InexactCode) *v1alpha1.NodeLayout {
	l.Inexact = nil
	for _, c := range codes {
		l.Inexact = append(
			l.Inexact,
			v1alpha1.FromInexact([]state.Inexact{{Code: c, Message: "because of " + string(c)}})...)
	}
	return l
}

// A node whose kubelet could not restart with its present pods is counted.
func TestRestartHazardsAreCounted(t *testing.T) {
	pod := kubetest.Bound(kubetest.CPUs("p", 31), "n")
	book := reporting(t, kubetest.Strict(t, "n", 1, kubetest.Holding(pod, "1-31")))
	g := newGauges(inspect.Source{Book: book, Now: time.Now})
	if got := gathered(t, g); !strings.Contains(got, `tenon_restart_hazards{hazard="no-shared-cpu",node="n"} 1`) {
		t.Errorf("metrics: %s", got)
	}
}

// The counts of fitting pods follow the nodes' holdings. Shapes are the configured ones and the shapes of the workload
// profile.
func TestFittingPodsAreCounted(t *testing.T) {
	shape, err := config.ParseShape("cpu=8")
	if err != nil {
		t.Fatal(err)
	}
	usual := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: 4000}}}
	book := reporting(t, layout(t, "a", place.SingleNUMA, 1), layout(t, "b", place.SingleNUMA, 1))
	plain := &plainAmounts{Node: whatif.Node{Allocatable: whatif.Amounts{"cpu": 64_000, "pods": 110}}}
	g := newGauges(inspect.Source{Book: book, Now: time.Now})
	g.fitting = newFitting([]*place.Pod{shape}, func() *score.Mix {
		return score.NewMix([]score.Share{{Pod: usual, Weight: 1}, {Pod: shape, Weight: 1}})
	}, plain)
	now := time.Unix(1e9, 0)
	g.fitting.now = func() time.Time { return now }
	before := gathered(t, g)
	for _, want := range []string{`tenon_fitting_pods{shape="cpu=8"} 8`, `tenon_fitting_pods{shape="cpu=4"} 16`} {
		if !strings.Contains(before, want) {
			t.Errorf("metrics lack %s: %s", want, before)
		}
	}
	if _, ok := book.Reserve("a", state.PodID{UID: "u", Name: "p"}, shape, place.Demand{}); !ok {
		t.Fatal("the pod does not fit")
	}
	for _, s := range []struct {
		after time.Duration
		want  string
	}{{time.Second, "8"}, {resendFor, "7"}} { // a second scrape just after the first counts nothing anew
		now = now.Add(s.after)
		later := newGauges(inspect.Source{Book: book, Now: time.Now})
		later.fitting = g.fitting
		if after := gathered(t, later); !strings.Contains(after, `tenon_fitting_pods{shape="cpu=8"} `+s.want) {
			t.Errorf("beside a pod, %v later: %s", s.after, after)
		}
	}
	plain.Used, plain.version = whatif.Amounts{"cpu": 48_000, "pods": 109}, 2
	now = now.Add(resendFor)
	last := newGauges(inspect.Source{Book: book, Now: time.Now})
	last.fitting = g.fitting
	if after := gathered(t, last); !strings.Contains(after, `tenon_fitting_pods{shape="cpu=4"} 2`) {
		t.Errorf("with one pod left by each node: %s", after)
	}
}

// With pools, the counts of their nodes are apart, and there are not more pools than the bound and the rest.
func TestFittingPodsAreCountedByPool(t *testing.T) {
	shape, err := config.ParseShape("cpu=8")
	if err != nil {
		t.Fatal(err)
	}
	var layouts []*v1alpha1.NodeLayout
	for i := range maxPools + 3 {
		layouts = append(layouts, layout(t, fmt.Sprintf("n%02d", i), place.SingleNUMA, 1))
	}
	g := newGauges(inspect.Source{Book: reporting(t, layouts...), Now: time.Now})
	g.fitting = newFitting([]*place.Pod{shape}, nil,
		&plainAmounts{Node: whatif.Node{Allocatable: whatif.Amounts{"cpu": 64_000, "pods": 110}}})
	g.fitting.divide(func(node string) string { return map[string]string{"n00": "a", "n01": "a"}[node] })
	text := gathered(t, g)
	for _, want := range []string{`tenon_fitting_pods{pool="a",shape="cpu=8"} 8`,
		fmt.Sprintf(`tenon_fitting_pods{pool="",shape="cpu=8"} %d`, 4*(maxPools+1))} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s: %s", want, text)
		}
	}
	many := newGauges(inspect.Source{Book: g.source.Book, Now: time.Now})
	many.fitting = newFitting([]*place.Pod{shape}, nil, g.fitting.plain)
	many.fitting.divide(func(node string) string { return node })
	text = gathered(t, many)
	if n := strings.Count(text, "tenon_fitting_pods{"); n != maxPools+1 ||
		!strings.Contains(text, `tenon_fitting_pods{pool="other",shape="cpu=8"} 12`) {
		t.Errorf("%d numbers: %s", n, text)
	}
}

// However many shapes are configured and learned, and however many nodes there are, a scrape has few shapes and counts
// few nodes anew. A shape has no number before all nodes were counted.
func TestFittingPodsAreBounded(t *testing.T) {
	const nodes = 200
	var layouts []*v1alpha1.NodeLayout
	for i := range nodes {
		layouts = append(layouts, layout(t, "n"+strconv.Itoa(i), place.SingleNUMA, 1))
	}
	var named []*place.Pod
	var learned []score.Share
	for i := range 20 {
		one := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: int64(i+1) * 1000}}}
		if i < 10 {
			named = append(named, one)
		} else {
			learned = append(learned, score.Share{Pod: one, Weight: 1})
		}
	}
	plain := &plainAmounts{Node: whatif.Node{Allocatable: whatif.Amounts{"cpu": 64_000, "pods": 110}}}
	counts := newFitting(named, func() *score.Mix { return score.NewMix(learned) }, plain)
	book := reporting(t, layouts...)
	for scrape, want := range []int{maxCounts / nodes, maxNamed + maxLearned, maxNamed + maxLearned} {
		g := newGauges(inspect.Source{Book: book, Now: time.Now})
		g.fitting = counts
		if got := strings.Count(gathered(t, g), "tenon_fitting_pods{"); got != want {
			t.Errorf("scrape %d has %d shapes, want %d", scrape, got, want)
		}
	}
}

// plainAmounts returns the same amounts for every node.
type plainAmounts struct {
	whatif.Node
	version uint64
}

func (p *plainAmounts) Version(*state.Node) uint64 { return p.version }

func (p *plainAmounts) Of(*state.Node) (allocatable, used whatif.Amounts, there bool) {
	return p.Allocatable, p.Used, true
}

// gathered returns the gauges' values, one line each.
func gathered(t *testing.T, g *gauges) string {
	t.Helper()
	r := metrics.NewKubeRegistry()
	r.CustomMustRegister(g)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			value := strconv.FormatFloat(m.GetGauge().GetValue(), 'g', -1, 64)
			out.WriteString(f.GetName() + "{" + strings.Join(labels, ",") + "} " + value + "\n")
		}
	}
	return out.String()
}

// A node may send unknown codes; the metric's labels stay few.
func TestNodesAreCountedByKnownCodes(t *testing.T) {
	a, b := layout(t, "a", place.SingleNUMA, 1), layout(t, "b", place.SingleNUMA, 2)
	inexact(a, state.RulesFromFiles, state.RulesFromFiles, "made-up", "made-up-too")
	book := reporting(t, a, inexact(b, state.RulesFromFiles))
	got := gathered(t, newGauges(inspect.Source{Book: book, Now: time.Now,
		Healthy: func() error { return errors.New("not yet") }}))
	for _, want := range []string{`tenon_nodes_inexact{code="rules-from-files"} 2`, `tenon_nodes_inexact{code="other"} 1`,
		`tenon_nodes_inexact{code="release-order"} 0`, `tenon_feed_running{} 0`} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("metrics lack %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "made-up") {
		t.Errorf("metrics have what a node made up: %s", got)
	}
}

func counted(t *testing.T, m metrics.CounterMetric) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(m)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOutcomesAreCounted(t *testing.T) {
	m := NewCounters()
	n := reporting(t, layout(t, "n", place.Restricted, 1)).Snapshot().Node("n")
	a, b := holding(2, "0-1").Holdings, holding(2, "2-3").Holdings
	withMemory := holding(2, "0-1").Holdings
	withMemory[0].Memory = []place.Block{{Kind: "memory", NUMAs: 1, Bytes: 1}}
	withDevice := holding(2, "0-1").Holdings
	withDevice[0].Devices = []place.DeviceBlock{{Resource: "acme.com/gpu", IDs: []string{"0"}}}
	for _, o := range []state.Outcome{
		{Result: state.Confirmed, Predicted: a, Seen: a},
		{Result: state.Confirmed, Predicted: a, Seen: a, Foreign: true},
		{Result: state.Wrong, Predicted: a, Seen: b},
		{Result: state.Wrong, Predicted: a, Seen: withMemory},
		{Result: state.Wrong, Predicted: a, Seen: withDevice},
		{Result: state.Wrong, Predicted: a},
		{Result: state.Rejected, Predicted: a, Error: place.TopologyAffinityError},
	} {
		m.Outcome(o, n)
	}
	m.Outcome(state.Outcome{Result: state.Wrong, Predicted: a, Seen: b}, nil)
	of := func(want float64, m metrics.CounterMetric) {
		t.Helper()
		if got := counted(t, m); got != want {
			t.Errorf("%v are counted, want %v", got, want)
		}
	}
	of(2, m.predictions.WithLabelValues("confirmed", "true"))
	of(4, m.predictions.WithLabelValues("wrong", "true"))
	of(1, m.predictions.WithLabelValues("wrong", "false")) // the ledger no longer has the node
	of(1, m.predictions.WithLabelValues("rejected", "true"))
	inexact := *n
	inexact.Inexact = []state.Inexact{{Code: state.RulesFromFiles}}
	m.Outcome(state.Outcome{Result: state.Confirmed, Predicted: a, Seen: a}, &inexact)
	of(1, m.predictions.WithLabelValues("confirmed", "false"))
	for labels, want := range map[[2]string]float64{{"restricted", "cpus"}: 1, {"restricted", "memory"}: 1,
		{"restricted", "devices"}: 1, {"restricted", "containers"}: 1, {"unknown", "cpus"}: 1} {
		of(want, m.wrong.WithLabelValues(labels[0], labels[1]))
	}
	of(1, m.rejected.WithLabelValues("TopologyAffinityError"))
	of(1, m.foreign)
	(*Counters)(nil).Outcome(state.Outcome{}, nil)
	(*Counters)(nil).Made()
}

// Two schedulers in one process count separately; the first one's metrics are served.
func TestMetricsOfASecondScheduler(t *testing.T) {
	source := inspect.Source{Book: ledger.New(), Now: time.Now}
	a, b := NewCounters(), NewCounters()
	Measure(source, Measured{Plain: &plainAmounts{}})
	Measure(source, Measured{Plain: &plainAmounts{}})
	a.Made()
	if counted(t, a.predicted) != 1 || counted(t, b.predicted) != 0 {
		t.Error("one counts for the other")
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, f := range families {
		served[f.GetName()] = true
	}
	for _, name := range []string{"tenon_nodes", "tenon_oldest_prediction_seconds", "tenon_predictions_made_total",
		"tenon_foreign_pods_total"} {
		if !served[name] {
			t.Errorf("%s is not served", name)
		}
	}
}

// Every code has a label of its own.
func TestAllCodesAreKnown(t *testing.T) {
	text, err := os.ReadFile("../../core/state/inexact.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`InexactCode = "([^"]+)"`).FindAllStringSubmatch(string(text), -1)
	if len(declared) < 7 {
		t.Fatalf("%d codes are declared", len(declared))
	}
	for _, d := range declared {
		if !slices.Contains(knownCodes(), state.InexactCode(d[1])) {
			t.Errorf("code %s is counted as %q", d[1], otherCode)
		}
	}
}
