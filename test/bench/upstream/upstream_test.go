package upstream

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kit returns a kit that reads upstream's test cases, and has no programs.
func kit(t *testing.T) *Kit {
	t.Helper()
	k := &Kit{root: "../../.."}
	var err error
	if k.root, err = filepath.Abs(k.root); err != nil {
		t.Fatal(err)
	}
	module, err := k.run(t.Context(), "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	k.upstream = filepath.Join(strings.TrimSpace(module), "test", "integration", "scheduler_perf")
	return k
}

// A workload that upstream renames, or a parameter that it drops, must not be noticed only in a measurement.
func TestUpstreamHasTheWorkloads(t *testing.T) {
	k := kit(t)
	for _, w := range Workloads {
		j, _, err := k.prepare(w, Tenon, t.TempDir())
		if err != nil {
			t.Error(err)
			continue
		}
		all, err := readCases(j.Cases)
		if err != nil {
			t.Fatal(err)
		}
		list, _ := all[0]["workloads"].([]any)
		if len(all) != 1 || len(list) != 1 || all[0]["schedulerConfigPath"] != j.Scheduler {
			t.Errorf("%s: %d test cases with %d workloads", w, len(all), len(list))
		}
		want := filepath.Join(k.upstream, "batching", "scheduler-config-no-topology.yaml")
		if w.Case == "ResourceSaturation" && j.Base != want {
			t.Errorf("%s: upstream's configuration is %q", w, j.Base)
		}
	}
}

const cases = `
- name: One
  workloadTemplate: [{opcode: createNodes}]
  defaultThresholdMetricSelector: {name: other}
  workloads:
  - {name: small, params: {initNodes: 5, measurePods: 10}}
  - {name: large, threshold: 700, params: {initNodes: 5000, measurePods: 10000}}
  - {name: largest, threshold: {topic: 90}, params: {initNodes: 9000}}
`

func TestOneWorkloadIsChosen(t *testing.T) {
	file := filepath.Join(t.TempDir(), caseFile)
	if err := os.WriteFile(file, []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := readCases(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		w         Workload
		threshold string
		workload  string
		refused   string
	}{
		{Workload{Case: "One", Name: "small"}, "700 at large",
			`{"name":"small","params":{"initNodes":5,"measurePods":10}}`, ""},
		{Workload{Case: "One", Name: "large"}, "700",
			`{"name":"large","params":{"initNodes":5000,"measurePods":10000}}`, ""},
		{Workload{Case: "One", Name: "large", Set: map[string]int{"initNodes": 7}}, "700 at large",
			`{"name":"large","params":{"initNodes":7,"measurePods":10000}}`, ""},
		{Workload{Topic: "some/topic", Case: "One", Name: "largest"}, "90",
			`{"name":"largest","params":{"initNodes":9000}}`, ""},
		{Workload{Case: "One", Name: "small", Set: map[string]int{"pods": 1}}, "", "", "no parameter pods"},
		{Workload{Case: "One", Name: "none"}, "", "", "has no workload none"},
		{Workload{Case: "Two", Name: "small"}, "", "", "has no test case Two"},
	} {
		c, limit, err := isolate(all, x.w)
		if x.refused != "" {
			if err == nil || !strings.Contains(err.Error(), x.refused) {
				t.Errorf("%s: %v, want %q", x.w, err, x.refused)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		list, _ := c["workloads"].([]any)
		got, err := json.Marshal(list[0])
		if err != nil || string(got) != x.workload || len(list) != 1 {
			t.Errorf("%s: %s (%v), want %s", x.w, got, err, x.workload)
		}
		if limit.text(x.w) != x.threshold || c["defaultThresholdMetricSelector"] != nil {
			t.Errorf("%s: threshold %q, want %q", x.w, limit.text(x.w), x.threshold)
		}
	}
}

func TestResultsAreRead(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		name := filepath.Join(dir, "BenchmarkPerfScheduling_benchmark_misc_2026-01-01T00:00:00Z.json")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"version": "v1", "dataItems": [
		{"data": {"Average": 300, "Perc50": 1}, "unit": "pods/s", "labels": {"Metric": "SchedulingThroughput"}},
		{"data": {"Average": 100, "Perc50": 1}, "unit": "pods/s", "labels": {"Metric": "SchedulingThroughput"}},
		{"data": {"Duration": 3}, "unit": "s", "labels": {"Metric": "SchedulingDuration"}},
		{"data": {"Average": 1.5}, "unit": "ms", "labels": {"Metric": "` + decisionMetric + `"}}]}`)
	got, err := averages(dir)
	if err != nil || got[rateMetric] != 200 || got[decisionMetric] != 1.5 {
		t.Errorf("averages are %v (%v)", got, err)
	}
	write(`{"version": "v1", "dataItems": [{"data": null, "unit": "", "labels": {"Name": "x"}}]}`)
	if got, err := averages(dir); err == nil {
		t.Errorf("results without a throughput give %v", got)
	}
	if got, err := averages(t.TempDir()); err == nil {
		t.Errorf("no results give %v", got)
	}
}

func TestReport(t *testing.T) {
	run := func(rate, ms, cpu float64) Run {
		return Run{Rate: rate, Decision: time.Duration(ms * 1e6), CPU: time.Duration(cpu * 1e9)}
	}
	results := []Result{
		{Workload: Workload{Topic: "misc", Case: "Basic", Name: "500Nodes"}, Threshold: Threshold{680, "5000Nodes"},
			Runs: map[Subject][]Run{Plain: {run(100, 1, 10), run(200, 2, 10), run(400, 1, 20)},
				Tenon: {run(90, 2, 11), run(220, 3, 10), run(396, 1, 30)}}},
		{Workload: Workload{Topic: NUMA, Case: "NUMA", Name: "500Nodes"},
			Runs: map[Subject][]Run{Plain: {{Rate: 100, CPU: 1e9, Counts: Counts{Refused: 7, Pods: 50}}},
				Tenon: {{Rate: 50, CPU: 2e9, Own: 0.075, Gauges: 0.02, Counts: Counts{Pods: 50}}}}},
		{Workload: Workload{Case: "Broken"}, Err: os.ErrNotExist},
	}
	want := `| test case | workload | plain pods/s | tenon pods/s | ratio | CPU | decision | own | gauges | upstream's CI wants |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|
| Basic | 500Nodes | 233 | 235 | 0.99 (0.90 to 1.10) | 1.10 | 1.50 | 0.0 % | 0.0 % | 680 at 5000Nodes |
| NUMA | 500Nodes | 100 | 50 | 0.50 | 2.00 | - | 5.5 % | 2.0 % | - |

| test case | workload | plain | tenon |
|---|---|---:|---:|
| NUMA | 500Nodes | 7 of 50 | 0 of 50 |
`
	if got := Report(results, []Subject{Plain, Tenon}); got != want {
		t.Errorf("the report is\n%s\nwant\n%s", got, want)
	}
}

func TestShareOfAProfile(t *testing.T) {
	const text = "File: harness\nDuration: 22.05s, Total samples = 20.62s (93.53%)\n" +
		"Showing nodes accounting for 1.99s, 9.65% of 20.62s total\n      flat  flat%   sum%\n"
	if got, err := shareOf(text); err != nil || got != 0.0965 {
		t.Errorf("the share is %v (%v)", got, err)
	}
	const none = "File: harness\nDuration: 17.14s, Total samples = 18.08s (105.50%)\nActive filters:\n   focus=x\n"
	if got, err := shareOf(none); err != nil || got != 0 {
		t.Errorf("the share of no sample is %v (%v)", got, err)
	}
	if got, err := shareOf("File: harness\n"); err == nil {
		t.Errorf("a text without a sum has the share %v", got)
	}
}

func TestChoose(t *testing.T) {
	got, err := Choose([]string{"numa", "NUMAShared", "misc:SchedulingBasic:5000Nodes"})
	if err != nil || len(got) < 3 || got[0].Case != "NUMAGuaranteed" ||
		got[len(got)-2].String() != "NUMAShared 1000Nodes" || got[len(got)-1].String() != "SchedulingBasic 5000Nodes" {
		t.Errorf("chosen are %v (%v)", got, err)
	}
	if got, err := Choose([]string{"short", "shrt"}); err == nil {
		t.Errorf("a word that names nothing chooses %v", got)
	}
}
