package mover

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	core "github.com/tenon-numa/tenon/guests/affinity"
)

func TestMetricsCountBytes(t *testing.T) {
	var m Metrics
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(&m)
	if all, err := r.Gather(); err != nil || len(all) > 0 {
		t.Errorf("before the first period: %v, %v", all, err)
	}
	moved := []core.Verdict{{Outcome: core.Moved}, {Outcome: core.Moved}, {Outcome: core.Silent}}
	m.Record(Report{Result: core.Result{Before: 50e6, Verdicts: moved}, Local: 50e6, Seconds: 10, Used: time.Second})
	m.Record(Report{Result: core.Result{Before: 5e6, After: 5e6}, Local: 45e6, Remote: 5e6, Seconds: 10, Sockets: 7})
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, one := range f.GetMetric() {
			name := f.GetName()
			for _, l := range one.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = one.GetCounter().GetValue() + one.GetGauge().GetValue()
		}
		if !strings.Contains(string(document), "`"+f.GetName()+"`") {
			t.Errorf("docs/reference/metrics.md does not say what %s is", f.GetName())
		}
	}
	for name, want := range map[string]float64{"tenon_agent_affinity_bytes_total local": 950e6,
		"tenon_agent_affinity_bytes_total remote": 50e6, "tenon_agent_affinity_saved_bytes_total": 50e6,
		"tenon_agent_affinity_moves_total": 2, "tenon_agent_affinity_sockets": 7,
		"tenon_agent_affinity_cpu_seconds_total": 1} {
		if got[name] != want {
			t.Errorf("%s is %g, want %g", name, got[name], want)
		}
	}
}
