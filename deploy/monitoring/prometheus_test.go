package monitoring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/test/debian"
)

// program returns the path of a program of Debian's package prometheus.
func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := debian.Dir(runtime.GOARCH, "prometheus")
	if err == nil {
		return filepath.Join(dir, "usr/bin", name)
	}
	if path, lookErr := exec.LookPath(name); lookErr == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("no %s: %v", name, err)
	}
	t.Skipf("NOT RUN, no %s: %v", name, err)
	return ""
}

// prometheus is one that runs.
type prometheus struct {
	address string

	mu  sync.Mutex
	log strings.Builder
}

// start runs Prometheus with the configuration prometheus.yml in a directory until the test ends.
func start(t *testing.T, dir string) *prometheus {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, "prometheus"), "--config.file="+
		filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{}
	listens := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.read(out, listens)
		_ = cmd.Wait()
	}()
	// t.Context ends before the cleanups run.
	t.Cleanup(func() { <-ended })
	select {
	case p.address = <-listens:
	case <-ended:
		t.Fatalf("prometheus ended:\n%s", p.logged())
	case <-time.After(time.Minute):
		t.Fatalf("prometheus does not listen:\n%s", p.logged())
	}
	return p
}

// read stores the log, and sends the listening address that the log contains.
func (p *prometheus) read(out io.Reader, listens chan<- string) {
	address := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			listens <- m[1]
		}
	}
}

func (p *prometheus) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// get asks the HTTP API, into the data of the answer.
func (p *prometheus) get(ctx context.Context, path string, data any) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.address+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status   string
		Data     json.RawMessage
		Error    string
		Warnings []string
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if answer.Status != "success" || len(answer.Warnings) > 0 {
		return fmt.Errorf("%s: %s %s %s", path, answer.Status, answer.Error, answer.Warnings)
	}
	return json.Unmarshal(answer.Data, data)
}

// sample is one of the answers of a query.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

func (s sample) value() float64 {
	text, _ := s.Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// errNoData is the error of a query that is right and gives no number.
var errNoData = errors.New("no data")

func (p *prometheus) query(ctx context.Context, expr string) ([]sample, error) {
	var data struct{ Result []sample }
	if err := p.get(ctx, "query?query="+url.QueryEscape(expr), &data); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(data.Result, func(s sample) bool { return !math.IsNaN(s.value()) }) {
		return nil, errNoData
	}
	return data.Result, nil
}

// eventually runs f until it has no error.
func eventually(t *testing.T, what string, p *prometheus, f func(context.Context) error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			last = f(ctx)
			return last == nil, nil
		}); err != nil {
		t.Fatalf("%s: %v, %v; prometheus says\n%s", what, err, last, p.logged())
	}
}

// scraping runs Prometheus with the configuration that users are shown, on agents of this process.
func scraping(t *testing.T) *prometheus {
	t.Helper()
	program(t, "prometheus")
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	write(t, filepath.Join(dir, "token"), []byte(token))
	write(t, filepath.Join(dir, "alerts.yaml"), read(t, "alerts.yaml"))
	config := string(read(t, "prometheus.yaml"))
	for _, r := range [][2]string{
		{"scrape_interval: 30s", "scrape_interval: 1s"}, {"scrape_timeout: 10s", "scrape_timeout: 1s"},
		{"evaluation_interval: 30s", "evaluation_interval: 1s"},
		{"node-1.example:9201", serve(t, agent(t, "node-1"), "", "", guard(t))},
		{"node-2.example:9201", serve(t, agent(t, "node-2"), cert, key, guard(t))},
		{"scheduler-1.example:10259", scheduler(t)},
	} {
		if strings.Count(config, r[0]) != 1 {
			t.Fatalf("prometheus.yaml does not say %q once", r[0])
		}
		config = strings.ReplaceAll(config, r[0], r[1])
	}
	write(t, filepath.Join(dir, "prometheus.yaml"), []byte(config))
	return start(t, dir)
}

// A real Prometheus, with the configuration that users are shown, reads an agent as it is by default and
// one behind TLS and a gate; it finds the values there, raises the alerts, and fills every panel of the
// dashboard.
func TestPrometheusReadsTheAgents(t *testing.T) {
	p := scraping(t)
	eventually(t, "both agents and the scheduler are up", p, func(ctx context.Context) error {
		up, err := p.query(ctx, "sum(up == 1)")
		if err == nil && up[0].value() != 3 {
			err = fmt.Errorf("%v are up", up[0].value())
		}
		return err
	})
	for expr, want := range map[string]float64{
		`numa_node_cpus{node="node-1",numa_node="8",type="free"}`:                                            2,
		`numa_node_cpus{node="node-2",numa_node="0",type="allocatable"}`:                                     3,
		`numa_node_cpus_count{node="node-1",numa_node="0"}`:                                                  4,
		`numa_node_memory_bytes{node="node-1",numa_node="8",type="allocated"}`:                               4 * gi,
		`numa_node_hugepages_bytes{node="node-1",numa_node="0",page_size="1Gi",type="free"}`:                 3 * gi,
		`numa_node_devices{node="node-1",numa_node="0",resource="x.io/nic",type="free"}`:                     1,
		`numa_node_distance{node="node-1",numa_node="0",target_numa_node="8"}`:                               21,
		`tenon_pod_cpus{node="node-1",namespace="shop",pod="db",numa_node="8"}`:                              2,
		`tenon_container_memory_remote_ratio{node="node-2",namespace="shop",pod="db",container="app"}`:       .25,
		`tenon_container_memory_numa_bytes{node="node-1",container="app",numa_node="8",kind="anon"}`:         3 * gi,
		`sum(scrape_samples_scraped - scrape_samples_post_metric_relabeling)`:                                0,
		`count({__name__=~"(tenon|numa_node)_.+", exported_namespace!=""}) or vector(0)`:                     0,
		`tenon_rules_info{node="node-1",topology_policy="restricted",cpu_policy="static",job="tenon-agent"}`: 1,
	} {
		got, err := p.query(t.Context(), expr)
		if err != nil || len(got) != 1 || got[0].value() != want {
			t.Errorf("%s is %v, %v, want %v", expr, got, err, want)
		}
	}
	t.Run("dashboard", func(t *testing.T) { fillsTheDashboard(t, p) })
	t.Run("alerts", func(t *testing.T) { evaluatesTheAlerts(t, p) })
	var targets struct {
		ActiveTargets []struct{ Health, LastError string }
	}
	if err := p.get(t.Context(), "targets", &targets); err != nil {
		t.Fatal(err)
	}
	for _, x := range targets.ActiveTargets {
		if x.Health != "up" || x.LastError != "" {
			t.Errorf("a target is %+v", x)
		}
	}
	for line := range strings.Lines(p.logged()) {
		if strings.Contains(line, "level=warn") || strings.Contains(line, "level=error") {
			t.Errorf("prometheus says %s", line)
		}
	}
}

func fillsTheDashboard(t *testing.T, p *prometheus) {
	variables := strings.NewReplacer("$node", ".*", "$__rate_interval", "10s", "$cpus", "2")
	queries := dashboard(t, "dashboard.json").queries()
	maps.Copy(queries, dashboard(t, "scheduler.json").queries())
	for title, exprs := range queries {
		for _, expr := range exprs {
			eventually(t, title, p, func(ctx context.Context) error {
				_, err := p.query(ctx, variables.Replace(expr))
				if err != nil {
					return fmt.Errorf("%s: %w", expr, err)
				}
				return nil
			})
		}
	}
	if t.Failed() {
		return
	}
	// What the share of pages is made of is what it is named for. A rate needs two scrapes within its window.
	eventually(t, "share of pages got where wanted", p, func(ctx context.Context) error {
		got, err := p.query(ctx, `round(rate(numa_node_memory_numa_hit_total{node="node-1"}[10s]) / `+
			`(rate(numa_node_memory_numa_hit_total[10s]) + rate(numa_node_memory_numa_foreign_total[10s])), 0.01)`)
		if err == nil && got[0].value() != .9 {
			err = fmt.Errorf("it is %v, want 0.9", got[0].value())
		}
		return err
	})
}

func evaluatesTheAlerts(t *testing.T, p *prometheus) {
	type rule struct{ Name, Health, LastError, State string }
	var got struct{ Groups []struct{ Rules []rule } }
	eventually(t, "rules are evaluated", p, func(ctx context.Context) error {
		if err := p.get(ctx, "rules", &got); err != nil {
			return err
		}
		if len(got.Groups) == 0 {
			return errors.New("no rules")
		}
		for _, g := range got.Groups {
			for _, r := range g.Rules {
				if r.Health == "unknown" {
					return fmt.Errorf("%s is not evaluated yet", r.Name)
				}
			}
		}
		return nil
	})
	var names []string
	for _, g := range got.Groups {
		for _, r := range g.Rules {
			names = append(names, r.Name)
			if r.Health != "ok" || r.LastError != "" {
				t.Errorf("rule %+v", r)
			}
		}
	}
	if want := alertNames(t); !slices.Equal(names, want) {
		t.Errorf("rules are %v, want %v", names, want)
	}
}

// The files pass as they are shipped.
func TestPromtool(t *testing.T) {
	tool := program(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yaml"},
		{"check", "rules", "--lint-fatal", "alerts.yaml"},
		{"test", "rules", "testdata/alerts_test.yaml"},
	} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	cmd := exec.CommandContext(t.Context(), tool, "check", "metrics")
	f, err := os.Open("../../node/metrics/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdin = f
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		// This one has the name that other exporters gave it.
		if !strings.HasPrefix(line, "numa_node_cpus_count ") {
			t.Errorf("promtool check metrics: %s", line)
		}
	}
}
