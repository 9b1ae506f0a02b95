// Package metrics shows what the agent sees and does to Prometheus.
//
// A [Metrics] keeps the last state that the agent told it and computes everything else of it when it is
// scraped. Invariant: a scrape waits for nobody and never keeps the agent waiting; what cannot be read
// is left out and counted, the rest is served. Series are bounded by the machine, Options.Pods and
// Options.Containers. The package refuses to serve profiles to anybody but the machine itself.
//
// The family numa_node_* has a label numa_node, the id of a numa, and type: "capacity" is what exists,
// "allocatable" what reservations leave, "allocated" what containers hold of that, "free" the rest.
package metrics

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-numa/tenon/core/ledger"
)

// Options of Metrics.
type Options struct {
	// Node is the name of the Node: the label node of every metric.
	Node string
	// Sys is the tree of /sys, for the kernel's counters of each numa; nil leaves them out.
	Sys fs.FS
	// Pods is the most pods whose holdings are shown, oldest first; 0 shows none.
	Pods int
	// Memory says where the memory of containers is; nil leaves that out.
	Memory Memory
	// Containers is the most containers whose memory is shown, oldest pods first; 0 shows none.
	Containers int
}

// MaxPods and MaxContainers are the most that Options may say.
const (
	MaxPods       = 2048
	MaxContainers = 2048
)

// Metrics is a collector, and the agent's witness. Its methods may be called from any goroutine.
type Metrics struct {
	o     Options
	descs descs
	seen  atomic.Pointer[seen]

	writes, writeErrors *prometheus.CounterVec
	looks, lookErrors   prometheus.Counter
	unreadable          prometheus.Counter // counters of the kernel
	hidden              prometheus.Counter // cgroups
	latency             prometheus.Histogram
}

// seen is what the agent told last. It never changes.
type seen struct {
	node     *ledger.Node
	sequence int64
	at       time.Time
}

// New returns metrics that have seen nothing yet.
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
	m.looks = prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_agent_looks_total",
		Help: "Looks at what the kubelet holds."})
	m.lookErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_agent_look_errors_total",
		Help: "Looks that failed to read or to publish something."})
	m.unreadable = prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_agent_numastat_errors_total",
		Help: "Counters of a numa that could not be read from sysfs."})
	m.hidden = prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_agent_cgroup_errors_total",
		Help: "Containers whose cgroup could not be read."})
	m.latency = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenon_agent_publish_latency_seconds",
		Help:    "Time from the first change that a look met until it was published.",
		Buckets: []float64{.01, .02, .03, .05, .1, .2, .3, .5, 1, 2, 5, 10}})
	return m, nil
}

// Saw keeps the state of the node and the sequence of its layout.
func (m *Metrics) Saw(n *ledger.Node, sequence int64) { m.seen.Store(&seen{n, sequence, time.Now()}) }

// Wrote counts a write of an object of the kind, or a failure to.
func (m *Metrics) Wrote(object string, err error) {
	if err != nil {
		m.writeErrors.WithLabelValues(object).Inc()
		return
	}
	m.writes.WithLabelValues(object).Inc()
}

// Looked counts a look, and keeps how long after the first change it published something.
func (m *Metrics) Looked(after time.Duration, wrote bool, err error) {
	m.looks.Inc()
	if err != nil {
		m.lookErrors.Inc()
	}
	if wrote {
		m.latency.Observe(after.Seconds())
	}
}

// own are the metrics that are kept, not computed.
func (m *Metrics) own() []prometheus.Collector {
	return []prometheus.Collector{m.writes, m.writeErrors, m.looks, m.lookErrors, m.latency}
}

// Register registers everything with the label node.
func (m *Metrics) Register(r prometheus.Registerer) error {
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"node": m.o.Node}, r)
	errs := []error{labelled.Register(m)}
	for _, c := range m.own() {
		errs = append(errs, labelled.Register(c))
	}
	return errors.Join(errs...)
}
