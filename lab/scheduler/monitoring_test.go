package scheduler_test

import (
	"context"
	"flag"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

var renew = flag.Bool("monitoring.renew", false, "write deploy/monitoring/testdata/scheduler.txt anew")

const monitoring = "../../deploy/monitoring/"

// The scheduler serves every metric in the dashboard and the alerts, and serves counters from the start.
func TestTheSchedulerServesWhatIsMonitored(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := start(ctx, t, lab.Config{Nodes: []lab.Node{{Name: "xeon", Machine: "xeon-2s"}}}, scheduler.Tenon)
	served := func() string {
		r := httptest.NewRecorder()
		legacyregistry.Handler().ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
		return r.Body.String()
	}
	first := served()
	for _, series := range []string{`tenon_predictions_total{exact="true",result="wrong"} `,
		`tenon_predictions_total{exact="false",result="confirmed"} `,
		`tenon_pods_refused_total{reason="TopologyAffinityError"} `, `tenon_budgets_exceeded_total{what="pod"} `,
		`tenon_predictions_wrong_total{differs="cpus",policy="single-numa-node"} `, `tenon_turn_wait_seconds_count{reason="order"} `,
		`tenon_nodes_state{state="silent"} `} {
		if !strings.Contains(first, "\n"+series) {
			t.Errorf("the scheduler starts without %s", series)
		}
	}
	w.runs(ctx, t, cores("a", 4))
	names, text := asked(t), ""
	missing := func() (out []string) {
		text = served()
		for _, name := range names {
			if !strings.Contains(text, "\n"+name) {
				out = append(out, name)
			}
		}
		return out
	}
	// The pods that fit are counted every five seconds.
	if err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
		return len(missing()) == 0, nil
	}); err != nil {
		t.Errorf("the dashboard or an alert asks for %v, which are not served: %v", missing(), err)
	}
	if !*renew {
		return
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(line, n) }) {
			out.WriteString(line)
		}
	}
	if err := os.WriteFile(monitoring+"testdata/scheduler.txt", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// asked returns the metrics of the scheduler in the dashboard and in the alerts.
func asked(t *testing.T) (out []string) {
	t.Helper()
	metric := regexp.MustCompile(`\b(tenon|scheduler)_[a-z_]+`)
	for _, file := range []string{"scheduler.json", "alerts.yaml"} {
		data, err := os.ReadFile(monitoring + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metric.FindAllString(string(data), -1) {
			if !regexp.MustCompile(`^tenon_(agent|container|restart_hazards)`).MatchString(name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
