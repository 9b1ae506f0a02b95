// Package metrics exports what the agent observes and does to Prometheus.
//
// A [Metrics] keeps the last node that the agent recorded, and computes the other metrics from it when it is scraped.
// Invariant: a scrape waits for no lock of the agent and never makes the agent wait; unreadable values are left out
// and limitedConn, and the rest is served. Series are bounded by the machine, Options.Pods and Options.Containers.
// The package serves profiles only to the machine itself.
//
// The family numa_node_* has a label numa_node, the id of a NUMA node, and a label type. Of the types, "capacity" is
// what exists and "allocatable" is what reservations leave. "allocated" is the part of the allocatable amount that
// containers hold, and "free" is the rest.
package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-numa/tenon/core/state"
)

// Options of Metrics.
type Options struct {
	// Node is the name of the Node: the label node of every metric.
	Node string
	// Sys is the tree of /sys, for the kernel's counters and the memory of each NUMA node; nil leaves them out.
	Sys fs.FS
	// Proc is the tree of /proc, for the time that CPUs were busy; nil leaves it out.
	Proc fs.FS
	// Pods bounds the pods whose holdings are shown, oldest first; 0 shows none.
	Pods int
	// Memory reads where the memory of containers is; nil leaves that out.
	Memory Memory
	// More are further metrics of the agent, which get the label node too.
	More []prometheus.Collector
	// Containers bounds the containers whose memory is shown, oldest pods first; 0 shows none.
	Containers int
}

// MaxPods and MaxContainers are the greatest values of Options.
const (
	MaxPods       = 2048
	MaxContainers = 2048
)

// Metrics is a collector, and the agent's Recorder. Its methods may be called from any goroutine.
type Metrics struct {
	o     Options
	descs descs
	last  atomic.Pointer[recorded]

	writes, writeErrors *prometheus.CounterVec
	reconciles, failed  prometheus.Counter
	fileErrors          prometheus.Counter // files of the kernel that could not be read
	cgroupErrors        prometheus.Counter // cgroups that could not be read
	latency             prometheus.Histogram
}

// recorded has the node that the agent recorded last, the sequence of its layout, and when that was. It never
// changes.
type recorded struct {
	node     *state.Node
	sequence int64
	at       time.Time
}

// New returns metrics without a recorded node.
func New(o Options) (*Metrics, error) {
	if o.Node == "" {
		return nil, errors.New("metrics: name of the node is empty")
	}
	if o.Pods < 0 || o.Pods > MaxPods {
		return nil, fmt.Errorf("metrics: number of pods %d is not in 0..%d", o.Pods, MaxPods)
	}
	if o.Containers < 0 || o.Containers > MaxContainers {
		return nil, fmt.Errorf("metrics: number of containers %d is not in 0..%d", o.Containers, MaxContainers)
	}
	m := &Metrics{o: o, descs: newDescs()}
	m.writes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tenon_agent_writes_total",
		Help: "Objects written to the API server, by kind."}, []string{"object"})
	m.writeErrors = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tenon_agent_write_errors_total",
		Help: "Objects that could not be written to the API server, by kind."}, []string{"object"})
	m.reconciles = prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_agent_looks_total",
		Help: "Reconciles of what is published with the node."})
	m.failed = prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_agent_look_errors_total",
		Help: "Reconciles that failed to read or to publish something."})
	m.fileErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_agent_numastat_errors_total",
		Help: "Counters of a NUMA node that could not be read from /sys or /proc."})
	m.cgroupErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_agent_cgroup_errors_total",
		Help: "Containers whose cgroup could not be read."})
	m.latency = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenon_agent_publish_latency_seconds",
		Help:    "Time from the first change that a reconcile observed until it was published.",
		Buckets: []float64{.01, .02, .03, .05, .1, .2, .3, .5, 1, 2, 5, 10}})
	return m, nil
}

// RecordNode keeps the node and the sequence of its layout.
func (m *Metrics) RecordNode(n *state.Node, sequence int64) {
	m.last.Store(&recorded{n, sequence, time.Now()})
}

// RecordWrite counts a write of an object of the kind, or a failure to write it.
func (m *Metrics) RecordWrite(object string, err error) {
	if err != nil {
		m.writeErrors.WithLabelValues(object).Inc()
		return
	}
	m.writes.WithLabelValues(object).Inc()
}

// RecordReconcile counts a reconcile. If it wrote something, RecordReconcile also observes the time from the first
// change that led to it until its end.
func (m *Metrics) RecordReconcile(after time.Duration, wrote bool, err error) {
	m.reconciles.Inc()
	if err != nil {
		m.failed.Inc()
	}
	if wrote {
		m.latency.Observe(after.Seconds())
	}
}

// counters returns the metrics that keep their values between scrapes, for Register. It omits fileErrors and
// cgroupErrors, which Collect sends itself.
func (m *Metrics) counters() []prometheus.Collector {
	return []prometheus.Collector{m.writes, m.writeErrors, m.reconciles, m.failed, m.latency}
}

// Register registers all metrics, Options.More included, with the label node. It returns the errors of all that could
// not be registered.
func (m *Metrics) Register(r prometheus.Registerer) error {
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"node": m.o.Node}, r)
	errs := []error{labelled.Register(m)}
	for _, c := range append(m.counters(), m.o.More...) {
		errs = append(errs, labelled.Register(c))
	}
	return errors.Join(errs...)
}
