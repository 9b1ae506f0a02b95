// Package metrics counts and measures what a scheduler with the plugin does. kube-scheduler serves these metrics
// together with its own.
//
// Invariant: foreseeable series exist before their first event. A label has only values that this release has
// defined, so nodes and pods cannot add others. Three gauges are exceptions: their labels name nodes, pod shapes, and
// the leader. For a second scheduler in one process the package counts, but does not serve, since the names are
// registered already.
package metrics

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Counters count events of one scheduler. Methods on a nil *Counters count nothing.
type Counters struct {
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
	undone      *metrics.Counter
	gangs       *metrics.CounterVec
	turns       *metrics.HistogramVec
	registry    metrics.KubeRegistry
}

func counter(name, help string) *metrics.CounterOpts {
	return &metrics.CounterOpts{Subsystem: "tenon", Name: name, Help: help, StabilityLevel: metrics.ALPHA}
}

// NewCounters returns counters at 0. It serves them unless the process already serves the counters of another
// scheduler.
func NewCounters() *Counters {
	m := &Counters{
		predicted: metrics.NewCounter(counter("predictions_made_total",
			"Predictions that were reserved, of what a pod will hold on its node.")),
		woken: metrics.NewCounter(counter("pods_woken_total",
			"Pods that were refused and are tried again because a node may have room for them now.")),
		predictions: metrics.NewCounterVec(counter("predictions_total",
			"Predictions met by what the node did, by result (confirmed, wrong, rejected), and by whether "+
				"predictions for the node were exact."),
			[]string{"result", "exact"}),
		wrong: metrics.NewCounterVec(counter("predictions_wrong_total",
			"Wrong predictions, by the node's topology manager policy and by what differs first (cpus, memory, "+
				"devices, containers)."),
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
		undone: metrics.NewCounter(counter("claims_undone_total",
			"Reservations of devices for claims that were undone, because other pods changed where the pod's CPUs are.")),
		gangs: metrics.NewCounterVec(counter("gang_searches_total",
			"Searches for the nodes of a gang that kube-scheduler could not place pod by pod, by result (found; none: "+
				"there are no such nodes; spent: it was given up)."), []string{"result"}),
	}
	m.turns = metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: "tenon", Name: "turn_wait_seconds",
		Help: "Time that pods waited for their turn on their node, by what they waited for at first (turn, order, " +
			"devices, report, crowd). Pods that did not wait do not count.",
		Buckets: metrics.ExponentialBuckets(0.01, 2, 14), StabilityLevel: metrics.ALPHA}, []string{"reason"})
	m.registry = metrics.NewKubeRegistry()
	for _, c := range []metrics.Registerable{m.predicted, m.woken, m.predictions, m.wrong, m.rejected, m.foreign,
		m.layouts, m.topologies, m.exceeded, m.suppressed, m.undone, m.gangs, m.turns} {
		m.registry.MustRegister(c)
		_ = legacyregistry.Register(c) // a second scheduler in one process finds the name registered
	}
	m.zero()
	return m
}

// zero creates every foreseeable series before its first event: Prometheus does not count the step from no series to 1
// as an increase.
func (c *Counters) zero() {
	for _, result := range []state.Result{state.Confirmed, state.Wrong, state.Rejected} {
		for _, exact := range []bool{true, false} {
			c.predictions.WithLabelValues(string(result), strconv.FormatBool(exact))
		}
	}
	for _, p := range []place.Policy{place.None, place.BestEffort, place.Restricted, place.SingleNUMA} {
		for _, what := range []string{"cpus", "memory", "devices", "containers"} {
			c.wrong.WithLabelValues(p.String(), what)
		}
	}
	for _, why := range []place.RefusalReason{place.TopologyAffinityError, place.SMTAlignmentError,
		place.UnexpectedAdmissionError} {
		c.rejected.WithLabelValues(string(why))
	}
	for _, what := range []string{BudgetPod, BudgetVictims} {
		c.exceeded.WithLabelValues(what)
	}
	for _, result := range []string{"found", "none", "spent"} {
		c.gangs.WithLabelValues(result)
	}
	for _, why := range state.WaitReasons() {
		c.turns.WithLabelValues(string(why))
	}
}

// GangSearched counts a search for the nodes of a gang. spent is true if it ended before its result was known.
func (c *Counters) GangSearched(found, spent bool) {
	if c == nil {
		return
	}
	result := "none"
	switch {
	case found:
		result = "found"
	case spent:
		result = "spent"
	}
	c.gangs.WithLabelValues(result).Inc()
}

// ClaimUndone counts devices that were reserved and released again, since the pod will be elsewhere on the node.
func (c *Counters) ClaimUndone() {
	if c != nil {
		c.undone.Inc()
	}
}

// Gatherer returns this scheduler's counters, whether they are served or not.
func (c *Counters) Gatherer() metrics.Gatherer { return c.registry }

// Waited counts the time since a pod began to wait for its turn, however the wait ended, under the reason for which
// the pod waited at first.
func (c *Counters) Waited(why state.WaitReason, since time.Time) {
	if c != nil {
		c.turns.WithLabelValues(string(why)).Observe(time.Since(since).Seconds())
	}
}

// Made counts a prediction that was reserved.
func (c *Counters) Made() {
	if c != nil {
		c.predicted.Inc()
	}
}

// Woken counts pods that are tried again.
func (c *Counters) Woken(pods int) {
	if c != nil {
		c.woken.Add(float64(pods))
	}
}

// Outcome counts the outcome of a prediction. n is the state of the node at present, or nil if the ledger does not
// have it.
func (c *Counters) Outcome(o state.Outcome, n *state.Node) {
	if c == nil {
		return
	}
	c.predictions.WithLabelValues(string(o.Result), strconv.FormatBool(n != nil && len(n.Inexact) == 0)).Inc()
	if o.Foreign {
		c.foreign.Inc()
	}
	switch o.Result {
	case state.Wrong:
		policy := "unknown"
		if n != nil {
			policy = n.Rules.Topology.Policy.String()
		}
		c.wrong.WithLabelValues(policy, differs(o.Predicted, o.Seen)).Inc()
	case state.Rejected:
		c.rejected.WithLabelValues(string(o.Error)).Inc()
	}
}

// Exceeded counts work that was skipped because it would cost too much: BudgetPod or BudgetVictims.
func (c *Counters) Exceeded(what string) {
	if c != nil {
		c.exceeded.WithLabelValues(what).Inc()
	}
}

// The kinds of work that Exceeded counts.
const (
	BudgetPod     = "pod"     // to judge a pod
	BudgetVictims = "victims" // to try further sets of victims
)

// Suppressed counts a line about a pod that is not logged.
func (c *Counters) Suppressed() {
	if c != nil {
		c.suppressed.Inc()
	}
}

// LayoutRefused counts a layout that could not be read.
func (c *Counters) LayoutRefused() {
	if c != nil {
		c.layouts.Inc()
	}
}

// TopologyRefused counts a NodeResourceTopology that could not be read.
func (c *Counters) TopologyRefused() {
	if c != nil {
		c.topologies.Inc()
	}
}

// differs returns what is wrong first in a prediction: "cpus", "devices" or "memory" of a container, or "containers"
// if the containers themselves differ. predicted and seen have the containers in the same order.
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
