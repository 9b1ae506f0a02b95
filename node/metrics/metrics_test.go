package metrics

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/internal/golden"
)

const gi = 1 << 30

// node has two NUMA nodes with devices and hugepages, and two pods with holdings.
func node(t *testing.T) *state.Node {
	t.Helper()
	m, err := topo.ParseMachine(`
numa 0 cpus 0-3 memory 16Gi hugepages-1Gi 4
numa 8 cpus 4-7 memory 16Gi
distances 10 21
distances 21 10
device x.io/nic a,b numa 0
device x.io/nic both numa 0,8
device x.io/nic gone numa 8 unhealthy
device x.io/seat s numa none
`)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{
		Topology: place.TopologyRules{Policy: place.Restricted},
		CPU:      place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0)},
		Memory:   place.MemoryRules{Static: true, Reserved: []place.Reserved{{NUMA: 0, Kind: "memory", Bytes: gi}}},
	}
	entries := []state.Entry{
		{Pod: state.PodID{UID: "1", Namespace: "ns", Name: "first"}, Holdings: []place.Holding{
			{Container: "a", CPUs: idset.Of[idset.CPU](1, 4), Memory: []place.Block{{Kind: "memory", NUMAs: 3, Bytes: 18 * gi}},
				Devices: []place.DeviceBlock{{Resource: "x.io/nic", IDs: []string{"both"}, NUMAs: 3}}},
			{Container: "b", CPUs: idset.Of[idset.CPU](5)},
		}},
		{Pod: state.PodID{UID: "2", Namespace: "ns", Name: "second"}, Holdings: []place.Holding{
			{Container: "a", Memory: []place.Block{{Kind: "hugepages-1Gi", NUMAs: 1, Bytes: gi}, {Kind: "memory", NUMAs: 1}},
				Devices: []place.DeviceBlock{{Resource: "x.io/seat", IDs: []string{"s"}}}},
		}},
	}
	u := place.NewUsage(m, r)
	for _, e := range entries {
		u = u.Hold(e.Holdings...)
	}
	why := []state.Inexact{{Code: state.UnhealthyDevices}, {Code: state.RulesFromFiles},
		{Code: state.UnhealthyDevices}}
	return &state.Node{Name: "n", Machine: m, Rules: r, Entries: entries, Usage: u, Inexact: why}
}

// sys is a tree of /sys on which one NUMA node has counters and the other has invalid ones.
func sys() fs.FS {
	return fstest.MapFS{
		"devices/system/node/node0/numastat": {Data: []byte(
			"numa_hit 12\nnuma_miss 3\nnuma_foreign 4\ninterleave_hit 5\nlocal_node 6\nother_node 9\n")},
		"devices/system/node/node8/numastat": {Data: []byte("numa_hit many\n")},
		"devices/system/node/node0/meminfo":  {Data: []byte(meminfo)},
	}
}

func made(t *testing.T, o Options) *Metrics {
	t.Helper()
	o.Node = "node-a"
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scrape returns the result of a scrape, without the process's own metrics and times.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	h, err := m.Handler(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape is answered %d: %s", w.Code, w.Body)
	}
	var out strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if (strings.HasPrefix(name, "numa_") || strings.HasPrefix(name, "tenon_")) && !strings.Contains(name, "_timestamp_") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestGolden(t *testing.T) {
	m := made(t, Options{Sys: sys(), Proc: fstest.MapFS{"stat": {Data: []byte(procStat)}}, Pods: 10, Memory: memory(t),
		Containers: 10})
	m.RecordNode(node(t), 7)
	m.RecordWrite("NodeLayout", nil)
	m.RecordWrite("NodeResourceTopology", errors.New("down"))
	m.RecordReconcile(15*time.Millisecond, true, errors.New("down"))
	m.RecordReconcile(time.Hour, false, nil)
	got := scrape(t, m)
	golden.Check(t, "testdata/metrics.txt", got)
}

// The documentation has every metric, and none that does not exist.
func TestMetricsAreDocumented(t *testing.T) {
	m := made(t, Options{Sys: sys(), Proc: fstest.MapFS{"stat": {Data: []byte(procStat)}}, Pods: 10, Memory: memory(t),
		Containers: 10})
	m.RecordNode(node(t), 7)
	m.RecordWrite("NodeLayout", nil)
	m.RecordWrite("NodeLayout", errors.New("down"))
	r := prometheus.NewPedanticRegistry()
	if err := m.Register(r); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ = bytes.Cut(document, []byte("\n## Scheduler\n"))
	var documented []string
	for _, match := range regexp.MustCompile("`((?:numa_node|tenon)_[a-z_]+)`").FindAllStringSubmatch(string(document),
		-1) {
		documented = append(documented, match[1])
	}
	var real []string
	for _, f := range families {
		real = append(real, f.GetName())
		if !slices.Contains(documented, f.GetName()) {
			t.Errorf("docs/reference/metrics.md does not say what %s is", f.GetName())
		}
	}
	for _, name := range documented {
		if !slices.Contains(real, name) && name != "numa_node" {
			t.Errorf("docs/reference/metrics.md says what %s is, which is not there", name)
		}
	}
}

func TestNamesFollowTheConventions(t *testing.T) {
	m := made(t, Options{Sys: sys(), Proc: fstest.MapFS{"stat": {Data: []byte(procStat)}}, Pods: 10, Memory: memory(t),
		Containers: 10})
	m.RecordNode(node(t), 7)
	m.RecordWrite("NodeLayout", nil)
	r := prometheus.NewPedanticRegistry()
	if err := m.Register(r); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// This one has the name that other exporters gave it.
		if p.Metric != "numa_node_cpus_count" {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestPodsAreBounded(t *testing.T) {
	n := node(t)
	for _, c := range []struct {
		most          int
		first, second bool
		omitted       string
	}{{0, false, false, "2"}, {1, true, false, "1"}, {2, true, true, "0"}} {
		m := made(t, Options{Pods: c.most})
		m.RecordNode(n, 1)
		got := scrape(t, m)
		if strings.Contains(got, `pod="first"`) != c.first || strings.Contains(got, `pod="second"`) != c.second ||
			!strings.Contains(got, "numa_node_cpus{") || !strings.Contains(got, `tenon_agent_pods_omitted{node="node-a"} `+
			c.omitted+"\n") {
			t.Errorf("with %d pods:\n%s", c.most, got)
		}
	}
}

// Two pods of one name, as while a pod is replaced, and names that no label can have.
func TestUnusualPodsDoNotBreakAScrape(t *testing.T) {
	n := node(t)
	n.Entries[1].Pod = n.Entries[0].Pod
	n.Entries = append(n.Entries, state.Entry{Pod: state.PodID{Namespace: "\xff", Name: "odd"},
		Holdings: n.Entries[0].Holdings})
	m := made(t, Options{Pods: 10})
	m.RecordNode(n, 1)
	if got := scrape(t, m); !strings.Contains(got, `pod="odd"`) || !strings.Contains(got, `pod="first"`) {
		t.Errorf("scrape is\n%s", got)
	}
}

func TestNothingSeenIsNothingSaid(t *testing.T) {
	if got := scrape(t, made(t, Options{Sys: sys()})); strings.Contains(got, "numa_node") {
		t.Errorf("before the first look:\n%s", got)
	}
	for _, o := range []Options{{}, {Node: "n", Pods: -1}, {Node: "n", Pods: MaxPods + 1},
		{Node: "n", Containers: -1}, {Node: "n", Containers: MaxContainers + 1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestNumastat(t *testing.T) {
	for _, c := range []struct{ text, err string }{
		{"numa_hit 1\nsome_new_counter yes\n\nother_node 18446744073709551615\n", ""},
		{"", ""},
		{"numa_hit", "is not a name and a number"},
		{"numa_hit -1", "invalid syntax"},
		{"numa_hit 18446744073709551616", "out of range"},
		{"numa_hit 1\nnuma_hit 2", "twice"},
		{strings.Repeat("\n", maxNumastat+1), "more than"},
	} {
		_, err := parseNumastat(c.text)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.40q: error %v, want %q", c.text, err, c.err)
		}
	}
}

func FuzzNumastat(f *testing.F) {
	f.Add("numa_hit 12\nnuma_miss 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		if out, err := parseNumastat(text); err == nil && len(out) > len(kernelCounters()) {
			t.Errorf("%d counters of %q", len(out), text)
		}
	})
}

// Whatever pods hold, a scrape succeeds: the registry rejects it if a series occurs twice.
func TestEveryScrapeIsWhole(t *testing.T) {
	n := node(t)
	rapid.Check(t, func(r *rapid.T) {
		out := *n
		out.Entries = nil
		for range rapid.IntRange(0, 6).Draw(r, "pods") {
			e := n.Entries[rapid.IntRange(0, 1).Draw(r, "like")]
			e.Pod.Name = rapid.SampledFrom([]string{"a", "b", ""}).Draw(r, "name")
			out.Entries = append(out.Entries, e)
		}
		m := made(t, Options{Pods: rapid.IntRange(0, 6).Draw(r, "most")})
		m.RecordNode(&out, 1)
		p := prometheus.NewPedanticRegistry()
		if err := m.Register(p); err != nil {
			r.Fatal(err)
		}
		if _, err := p.Gather(); err != nil {
			r.Fatal(err)
		}
	})
}
