package sched

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenon-numa/tenon/cluster/inspect"
	"github.com/tenon-numa/tenon/cluster/report"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// schedulerMetrics are served with kube-scheduler's own. Methods on a nil *schedulerMetrics count
// nothing.
type schedulerMetrics struct {
	predicted   *metrics.Counter
	woken       *metrics.Counter
	predictions *metrics.CounterVec
	wrong       *metrics.CounterVec
	rejected    *metrics.CounterVec
	foreign     *metrics.Counter
	layouts     *metrics.Counter
	topologies  *metrics.Counter
	exceeded    *metrics.CounterVec
	suppressed  *metrics.Counter
	turns       *metrics.Histogram
}

func counter(name, help string) *metrics.CounterOpts {
	return &metrics.CounterOpts{Subsystem: "tenon", Name: name, Help: help, StabilityLevel: metrics.ALPHA}
}

func newMetrics() *schedulerMetrics {
	m := &schedulerMetrics{
		predicted: metrics.NewCounter(counter("predictions_made_total",
			"Predictions that were reserved, of what a pod will hold on its node.")),
		woken: metrics.NewCounter(counter("pods_woken_total",
			"Pods that were refused and are tried again because a node may have room for them now.")),
		predictions: metrics.NewCounterVec(counter("predictions_total",
			"Predictions met by what the node did, by result (confirmed, wrong, rejected), and by whether "+
				"predictions for the node were exact."),
			[]string{"result", "exact"}),
		wrong: metrics.NewCounterVec(counter(
			"predictions_wrong_total",
			"Wrong predictions, by the node's topology manager policy and by what differs first (cpus, memory, devices, containers).",
		),
			[]string{"policy", "differs"}),
		rejected: metrics.NewCounterVec(counter("pods_refused_total",
			"Pods that a kubelet refused though they were predicted to fit, by its reason."), []string{"reason"}),
		foreign: metrics.NewCounter(counter("foreign_pods_total",
			"Pods bound by somebody else, of which the node has reported what they hold.")),
		layouts: metrics.NewCounter(counter("layouts_refused_total",
			"Node layouts that could not be read and were refused.")),
		topologies: metrics.NewCounter(counter("noderesourcetopologies_refused_total",
			"NodeResourceTopologies of nodes without a layout that could not be read and were refused.")),
		exceeded: metrics.NewCounterVec(counter("budgets_exceeded_total",
			"Work that was not done because it would cost too much, by what it was (pod: a pod was refused; "+
				"victims: no further sets of victims were tried)."),
			[]string{"what"}),
		suppressed: metrics.NewCounter(counter("pod_log_lines_suppressed_total",
			"Lines that annotations of pods ask for and that were not logged, because too many pods ask.")),
	}
	m.turns = metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: "tenon", Name: "turn_wait_seconds",
		Help:    "Time that pods waited for their turn on their node. Pods that did not wait do not count.",
		Buckets: metrics.ExponentialBuckets(0.01, 2, 14), StabilityLevel: metrics.ALPHA})
	// A second scheduler in one process finds the names taken; its counters are then not served.
	for _, c := range []metrics.Registerable{m.predicted, m.woken, m.predictions, m.wrong, m.rejected, m.foreign, m.layouts, m.topologies,
		m.exceeded, m.suppressed, m.turns} {
		if err := legacyregistry.Register(c); err != nil {
			metrics.NewKubeRegistry().MustRegister(c)
		}
	}
	m.zero()
	return m
}

// zero makes every series that can be foreseen exist before its first event: an increase from nothing to 1 is none to
// Prometheus.
func (m *schedulerMetrics) zero() {
	for _, result := range []ledger.Result{ledger.Confirmed, ledger.Wrong, ledger.Rejected} {
		for _, exact := range []bool{true, false} {
			m.predictions.WithLabelValues(string(result), strconv.FormatBool(exact))
		}
	}
	for _, p := range []place.Policy{place.None, place.BestEffort, place.Restricted, place.SingleNUMA} {
		for _, what := range []string{"cpus", "memory", "devices", "containers"} {
			m.wrong.WithLabelValues(p.String(), what)
		}
	}
	for _, why := range []place.RefusalReason{place.TopologyAffinityError, place.SMTAlignmentError,
		place.UnexpectedAdmissionError} {
		m.rejected.WithLabelValues(string(why))
	}
	for _, what := range []string{budgetPod, budgetVictims} {
		m.exceeded.WithLabelValues(what)
	}
}

// waited counts a wait for a turn, however it ended.
func (m *schedulerMetrics) waited(since time.Time) {
	if m != nil {
		m.turns.Observe(time.Since(since).Seconds())
	}
}

// measure serves what is measured when somebody asks. Of a second scheduler in one process that is
// nothing: the names are taken.
func (*schedulerMetrics) measure(s inspect.Source, putOff func() int64, misaligned func() int) {
	g := newGauges(s)
	g.putOff, g.misaligned = putOff, misaligned
	_ = legacyregistry.CustomRegister(g)
}

// made counts a prediction that was reserved.
func (m *schedulerMetrics) made() {
	if m != nil {
		m.predicted.Inc()
	}
}

// wakes counts pods that are tried again.
func (m *schedulerMetrics) wakes(pods int) {
	if m != nil {
		m.woken.Add(float64(pods))
	}
}

// outcome counts how a prediction came out; n is the node as it is known now, or nil.
func (m *schedulerMetrics) outcome(o ledger.Outcome, n *ledger.Node) {
	if m == nil {
		return
	}
	m.predictions.WithLabelValues(string(o.Result), strconv.FormatBool(n != nil && len(n.Inexact) == 0)).Inc()
	if o.Foreign {
		m.foreign.Inc()
	}
	switch o.Result {
	case ledger.Wrong:
		policy := "unknown"
		if n != nil {
			policy = n.Rules.Topology.Policy.String()
		}
		m.wrong.WithLabelValues(policy, differs(o.Predicted, o.Seen)).Inc()
	case ledger.Rejected:
		m.rejected.WithLabelValues(string(o.Error)).Inc()
	}
}

// exceeds counts work that is not done because it would cost too much.
func (m *schedulerMetrics) exceeds(what string) {
	if m != nil {
		m.exceeded.WithLabelValues(what).Inc()
	}
}

// What may cost too much.
const (
	budgetPod     = "pod"
	budgetVictims = "victims"
)

// suppresses counts a line about a pod that is not logged.
func (m *schedulerMetrics) suppresses() {
	if m != nil {
		m.suppressed.Inc()
	}
}

// refused counts a layout that could not be read.
func (m *schedulerMetrics) refused() {
	if m != nil {
		m.layouts.Inc()
	}
}

// refusedTopology counts a NodeResourceTopology that could not be read.
func (m *schedulerMetrics) refusedTopology() {
	if m != nil {
		m.topologies.Inc()
	}
}

// differs says what of a prediction is wrong, container by container.
func differs(predicted, seen []place.Holding) string {
	if len(predicted) != len(seen) {
		return "containers"
	}
	for i, p := range predicted {
		s := seen[i]
		if p.Matches(s) {
			continue
		}
		if !p.CPUs.Equal(s.CPUs) {
			return "cpus"
		}
		if p.Devices = s.Devices; p.Matches(s) {
			return "devices"
		}
		return "memory"
	}
	return "containers"
}

// gauges are what is measured when somebody asks.
type gauges struct {
	metrics.BaseStableCollector
	source  inspect.Source
	waiting inspect.Waiting
	nodes   *metrics.Desc
	states  *metrics.Desc
	oldest  *metrics.Desc
	inexact *metrics.Desc
	hazards *metrics.Desc
	feed    *metrics.Desc
	paced   *metrics.Desc
	// putOff counts events of layouts that were put off; nil in tests.
	putOff func() int64
	spread *metrics.Desc
	// misaligned counts misaligned pods; nil in tests.
	misaligned func() int
}

func newGauges(s inspect.Source) *gauges {
	return &gauges{source: s,
		nodes: metrics.NewDesc("tenon_nodes", "Nodes, by the quality of what is known of them (exact, coarse, none).",
			[]string{"quality"}, nil, metrics.ALPHA, ""),
		states: metrics.NewDesc("tenon_nodes_state", "Nodes in a state in which they take fewer pods or none: silent "+
			"(a report is overdue), unsettled (pods that hold anything wait for a report), refused (the report was refused).",
			[]string{"state"}, nil, metrics.ALPHA, ""),
		oldest: metrics.NewDesc(
			"tenon_oldest_prediction_seconds",
			"Age of the oldest prediction that its node has not reported yet; 0 where there is none.",
			nil,
			nil,
			metrics.ALPHA,
			"",
		),
		inexact: metrics.NewDesc("tenon_nodes_inexact",
			"Nodes for which predictions may differ from what the kubelet does, by the code of the reason.",
			[]string{"code"}, nil, metrics.ALPHA, ""),
		hazards: metrics.NewDesc("tenon_restart_hazards",
			"1 for each node whose kubelet would not start again, or would end pods, if it were restarted now, "+
				"by what goes wrong.",
			[]string{"node", "hazard"}, nil, metrics.ALPHA, ""),
		feed: metrics.NewDesc("tenon_feed_running",
			"1 if what nodes and pods report has been read and is followed, 0 while it is not.", nil, nil, metrics.ALPHA, ""),
		spread: metrics.NewDesc("tenon_pods_misaligned",
			"Pods that hold parts of more NUMA nodes, or of more distant ones, than they would on the empty machine.",
			nil, nil, metrics.ALPHA, ""),
		paced: metrics.NewDesc("tenon_layouts_put_off_total",
			"Layouts that were not read at once because their node writes faster than its pace.", nil, nil, metrics.ALPHA, ""),
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (g *gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- g.nodes
	ch <- g.states
	ch <- g.oldest
	ch <- g.inexact
	ch <- g.hazards
	ch <- g.feed
	ch <- g.paced
	ch <- g.spread
}

// CollectWithStability implements metrics.StableCollector.
func (g *gauges) CollectWithStability(ch chan<- metrics.Metric) {
	for quality, n := range g.source.Qualities() {
		ch <- metrics.NewLazyConstMetric(g.nodes, metrics.GaugeValue, float64(n), quality)
	}
	for state, n := range g.source.States() {
		ch <- metrics.NewLazyConstMetric(g.states, metrics.GaugeValue, float64(n), state)
	}
	ch <- metrics.NewLazyConstMetric(g.oldest, metrics.GaugeValue, g.waiting.Oldest(g.source).Seconds())
	for code, n := range g.inexactNodes() {
		ch <- metrics.NewLazyConstMetric(g.inexact, metrics.GaugeValue, float64(n), code)
	}
	for n := range g.source.Book.Snapshot().All() {
		for _, h := range report.Hazards(n) {
			ch <- metrics.NewLazyConstMetric(g.hazards, metrics.GaugeValue, 1, n.Name, string(h.Code))
		}
	}
	running := 0.0
	if g.source.Health() == nil {
		running = 1
	}
	ch <- metrics.NewLazyConstMetric(g.feed, metrics.GaugeValue, running)
	if g.putOff != nil {
		ch <- metrics.NewLazyConstMetric(g.paced, metrics.CounterValue, float64(g.putOff()))
	}
	if g.misaligned != nil {
		ch <- metrics.NewLazyConstMetric(g.spread, metrics.GaugeValue, float64(g.misaligned()))
	}
}

// knownCodes are the codes that agents of this release send. A node may send any other, and a label with every value
// that it thinks of would grow without bound.
func knownCodes() []ledger.InexactCode {
	return []ledger.InexactCode{ledger.UnknownKubeletVersion, ledger.UnmodelledFeatureGate, ledger.UnhealthyDevices,
		ledger.RulesFromFiles, ledger.KubeletUnusable, ledger.ReleaseOrder, ledger.HoldingsOmitted, ledger.DeviceLocality,
		ledger.StateInconsistent, ledger.StaleFacts, ledger.PodsUnreported, ledger.ReportContradicted}
}

const otherCode = "other"

// inexactNodes counts nodes by code. Every known code is there.
func (g *gauges) inexactNodes() map[string]int {
	out := map[string]int{otherCode: 0}
	for _, code := range knownCodes() {
		out[string(code)] = 0
	}
	for n := range g.source.Book.Snapshot().All() {
		has := map[string]bool{}
		for _, r := range n.Inexact {
			code := string(r.Code)
			if _, known := out[code]; !known {
				code = otherCode
			}
			has[code] = true
		}
		for code := range has {
			out[code]++
		}
	}
	return out
}
