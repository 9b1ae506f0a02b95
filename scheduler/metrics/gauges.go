package metrics

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/scheduler/inspect"
	"github.com/tenon-numa/tenon/scheduler/report"
)

// Measured is what metrics are computed from when they are scraped. Its functions may be nil.
type Measured struct {
	// Delayed returns how many layouts were delayed, and Misaligned how many pods are misaligned.
	Delayed    func() int64
	Misaligned func() int
	// Wanted returns how many more nodes would give queues room, by a node that they would be like.
	Wanted func() map[string]int
	// Shapes are counted in addition to the shapes of the workload profile.
	Shapes []*place.Pod
	Plain  Plain
	// Pool returns the pool of a node. Without it, nodes are in no pools.
	Pool func(node string) string
}

// Measure registers the metrics that are computed when they are scraped. For a second scheduler in one process nothing
// is served, because the names are registered already.
func Measure(s inspect.Source, m Measured) {
	g := newGauges(s)
	g.fitting = newFitting(m.Shapes, s.Mix, m.Plain)
	g.fitting.divide(m.Pool)
	g.measured = m
	_ = legacyregistry.CustomRegister(g)
}

// gauges are the metrics that are computed when they are scraped.
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
	spread  *metrics.Desc
	leads   *metrics.Desc
	wanted  *metrics.Desc
	// measured has the functions that are asked; fitting has its shapes.
	measured Measured
	fitting  *fitting
}

func newGauges(s inspect.Source) *gauges {
	return &gauges{source: s, fitting: newFitting(nil, nil, nil),
		nodes: metrics.NewDesc("tenon_nodes", "Nodes, by the quality of what is known of them (exact, coarse, none).",
			[]string{"quality"}, nil, metrics.ALPHA, ""),
		states: metrics.NewDesc("tenon_nodes_state", "Nodes in a state in which they take fewer pods or none: silent "+
			"(a report is overdue), unsettled (pods that hold anything wait for a report), refused (the report was refused), "+
			"unlisted (pods run there that no report lists).",
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
			"1 if what nodes and pods report has been read and is followed, 0 while it is not.", nil, nil, metrics.ALPHA,
			""),
		spread: metrics.NewDesc("tenon_pods_misaligned",
			"Pods that hold parts of more NUMA nodes, or of more distant ones, than they would on the empty machine.",
			nil, nil, metrics.ALPHA, ""),
		leads: metrics.NewDesc("tenon_leader",
			"1 if this scheduler schedules, 0 if it is a standby; leader names the scheduler that holds the lease.",
			[]string{"leader"}, nil, metrics.ALPHA, ""),
		wanted: metrics.NewDesc("tenon_wanted_nodes",
			"Nodes like this one that would give ProvisioningRequests room which have none.", []string{"like"}, nil,
			metrics.ALPHA, ""),
		paced: metrics.NewDesc("tenon_layouts_put_off_total",
			"Layouts that were not read at once because their node writes faster than its pace.", nil, nil, metrics.ALPHA,
			""),
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
	ch <- g.leads
	ch <- g.wanted
	ch <- g.fitting.desc
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
	g.fitting.collect(g.source.Book.Snapshot(), ch)
	running := 0.0
	if g.source.Health() == nil {
		running = 1
	}
	ch <- metrics.NewLazyConstMetric(g.feed, metrics.GaugeValue, running)
	e := g.source.Role()
	leads := 1.0
	if e.Role == document.Standby {
		leads = 0
	}
	ch <- metrics.NewLazyConstMetric(g.leads, metrics.GaugeValue, leads, e.Leader)
	g.collectMeasured(ch)
}

// collectMeasured sends what functions return.
func (g *gauges) collectMeasured(ch chan<- metrics.Metric) {
	m := g.measured
	if m.Delayed != nil {
		ch <- metrics.NewLazyConstMetric(g.paced, metrics.CounterValue, float64(m.Delayed()))
	}
	if m.Misaligned != nil {
		ch <- metrics.NewLazyConstMetric(g.spread, metrics.GaugeValue, float64(m.Misaligned()))
	}
	if m.Wanted != nil {
		wanted := m.Wanted()
		if len(wanted) == 0 { // so that the metric is there
			wanted = map[string]int{"": 0}
		}
		for like, n := range wanted {
			ch <- metrics.NewLazyConstMetric(g.wanted, metrics.GaugeValue, float64(n), like)
		}
	}
}

// knownCodes returns the codes that agents of this release send. A node may send any other text as a code, and a
// label with all of these would grow without bound, so they count as otherCode.
func knownCodes() []state.InexactCode {
	return []state.InexactCode{state.UnknownKubeletVersion, state.UnmodelledFeatureGate, state.UnhealthyDevices,
		state.RulesFromFiles, state.KubeletUnusable, state.ReleaseOrder, state.HoldingsOmitted,
		state.StateInconsistent, state.StaleFacts, state.MachineChanged, state.DevicesOmitted, state.NotPinning,
		state.PodsUnreported, state.ReportContradicted}
}

const otherCode = "other"

// inexactNodes returns, by code, how many nodes are inexact for that reason. Every known code has an entry.
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
