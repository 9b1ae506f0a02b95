package sched

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenon-numa/tenon/core/ledger"
)

// schedulerMetrics are served with kube-scheduler's own.
type schedulerMetrics struct {
	predictions *metrics.CounterVec
	layouts     *metrics.Counter
}

func newMetrics() *schedulerMetrics {
	m := &schedulerMetrics{
		predictions: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: "tenon", Name: "predictions_total", StabilityLevel: metrics.ALPHA,
			Help: "Predictions met by what the node reported, by result (confirmed, wrong).",
		}, []string{"result"}),
		layouts: metrics.NewCounter(&metrics.CounterOpts{
			Subsystem: "tenon", Name: "layouts_refused_total", StabilityLevel: metrics.ALPHA,
			Help: "Node layouts that could not be read and were refused.",
		}),
	}
	// A second scheduler in one process finds the names taken; its counters are then not served.
	for _, c := range []metrics.Registerable{m.predictions, m.layouts} {
		if err := legacyregistry.Register(c); err != nil {
			metrics.NewKubeRegistry().MustRegister(c)
		}
	}
	return m
}

func (m *schedulerMetrics) outcome(o ledger.Outcome) {
	m.predictions.WithLabelValues(string(o.Result)).Inc()
}

func (m *schedulerMetrics) refused() { m.layouts.Inc() }
