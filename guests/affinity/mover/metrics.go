package mover

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	core "github.com/tenon-numa/tenon/guests/affinity"
)

// Metrics are the Prometheus metrics of a Runner. Methods may be called by any goroutine.
type Metrics struct {
	mu       sync.Mutex
	last     Report
	recorded bool               // last is set
	bytes    map[string]float64 // by path, "local" or "remote"
	saved    float64
	moves    float64
	cpu      float64
}

// The metrics.
var (
	bytesDesc = prometheus.NewDesc("tenon_agent_affinity_bytes_total",
		"Bytes that pods of the node exchanged as far as it was measured, within a NUMA node (local) or not (remote).",
		[]string{"path"}, nil)
	savedDesc = prometheus.NewDesc("tenon_agent_affinity_saved_bytes_total",
		"Bytes per second that moves took off the way between NUMA nodes, by the traffic at the time of each move.", nil, nil)
	podsDesc = prometheus.NewDesc("tenon_agent_affinity_pods",
		"Pods of the node, by why they are where they are.", []string{"outcome"}, nil)
	movesDesc = prometheus.NewDesc("tenon_agent_affinity_moves_total", "Pods that were put on another NUMA node.", nil,
		nil)
	socketsDesc = prometheus.NewDesc("tenon_agent_affinity_sockets", "Sockets that were read in the last period.", nil,
		nil)
	cpuDesc = prometheus.NewDesc("tenon_agent_affinity_cpu_seconds_total", "CPU time of reading sockets.", nil, nil)
)

// Record adds the outcome of a round to the counters, and keeps it for the gauges.
func (m *Metrics) Record(r Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes == nil {
		m.bytes = map[string]float64{}
	}
	m.last, m.recorded = r, true
	m.bytes["local"] += float64(r.Local) * r.Seconds
	m.bytes["remote"] += float64(r.Remote) * r.Seconds
	m.saved += max(0, float64(r.Before-r.After))
	m.cpu += r.Used.Seconds()
	for _, v := range r.Verdicts {
		if v.Outcome == core.Moved {
			m.moves++
		}
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{bytesDesc, savedDesc, podsDesc, movesDesc, socketsDesc, cpuDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It collects nothing before the first round has ended.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.recorded {
		return
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, path := range []string{"local", "remote"} {
		send(bytesDesc, prometheus.CounterValue, m.bytes[path], path)
	}
	count := map[core.Outcome]float64{}
	for _, v := range m.last.Verdicts {
		count[v.Outcome]++
	}
	for outcome, n := range count {
		send(podsDesc, prometheus.GaugeValue, n, string(outcome))
	}
	send(savedDesc, prometheus.CounterValue, m.saved)
	send(movesDesc, prometheus.CounterValue, m.moves)
	send(socketsDesc, prometheus.GaugeValue, float64(m.last.Sockets))
	send(cpuDesc, prometheus.CounterValue, m.cpu)
}
