package monitoring_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// board is a Grafana dashboard.
type board struct {
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ H, W, X, Y int }
		Targets                  []struct{ RefID, Expr, LegendFormat string }
	}
	Templating struct{ List []struct{ Name string } }
}

func dashboard(t *testing.T, file string) board {
	t.Helper()
	var out board
	if err := json.Unmarshal(read(t, file), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// queries returns the queries of the panels by title.
func (b board) queries() map[string][]string {
	out := map[string][]string{}
	for _, p := range b.Panels {
		for _, x := range p.Targets {
			out[p.Title] = append(out[p.Title], x.Expr)
		}
	}
	return out
}

// Every panel of a dashboard has a description and queries with Tenon's own metric names, and overlaps no other panel.
func TestDashboardsAreWhole(t *testing.T) {
	nodes, scheduler := dashboard(t, "dashboard.json"), dashboard(t, "scheduler.json")
	whole(t, nodes, `node=~"$node"`, "process_")
	whole(t, scheduler, `job=~"tenon-scheduler.*"`, "numa_node_")
	if len(nodes.Templating.List) != 2 || len(scheduler.Templating.List) != 2 {
		t.Errorf("variables are %v and %v, want two each", nodes.Templating.List, scheduler.Templating.List)
	}
}

// whole checks a dashboard whose queries contain one of two texts.
func whole(t *testing.T, b board, selects, or string) {
	t.Helper()
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range b.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q: id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Title == "" || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %d %q has no title, description or query", p.ID, p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q is on %q or outside, at %d, %d", p.Title, other, x, y)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, x := range p.Targets {
			if !strings.Contains(x.Expr, selects) && !strings.Contains(x.Expr, or) {
				t.Errorf("panel %q: %s does not say %s", p.Title, x.Expr, selects)
			}
		}
	}
}

func alertNames(t *testing.T) []string {
	t.Helper()
	var rules struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := yaml.Unmarshal(read(t, "alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			out = append(out, r.Alert)
		}
	}
	if len(out) == 0 {
		t.Fatal("alerts.yaml has no alerts")
	}
	return out
}

// The document describes every alert, and a test triggers every alert.
func TestAlertsAreDocumentedAndTried(t *testing.T) {
	document, tests := string(read(t, "../../docs/reference/metrics.md")), string(read(t, "testdata/alerts_test.yaml"))
	for _, name := range alertNames(t) {
		if !strings.Contains(document, "| `"+name+"` |") {
			t.Errorf("docs/reference/metrics.md does not say what %s is", name)
		}
		if !strings.Contains(tests, "alertname: "+name+"\n") {
			t.Errorf("testdata/alerts_test.yaml does not try %s", name)
		}
	}
}

// Each alert names a page that exists, has the alert's name, and describes the repair. The list of alerts contains the
// page.
func TestAlertsHaveRunbooks(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	list := string(read(t, "../../docs/howto/monitor.md"))
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			name, ok := strings.CutPrefix(r.Annotations["runbook_url"],
				"https://github.com/tenon-numa/tenon/blob/main/docs/howto/runbooks/")
			if !ok {
				t.Errorf("%s has the runbook %q", r.Alert, r.Annotations["runbook_url"])
				continue
			}
			page := string(read(t, "../../docs/howto/runbooks/"+name))
			for _, want := range []string{"# " + r.Alert + "\n", "## Meaning\n", "## See it\n", "## Do\n"} {
				if !strings.Contains(page, want) {
					t.Errorf("%s lacks %q", name, want)
				}
			}
			if !strings.Contains(list, "["+r.Alert+"](runbooks/"+name+")") {
				t.Errorf("docs/howto/monitor.md does not list %s", r.Alert)
			}
		}
	}
}

// The operator is given the alerts that Prometheus by itself is given.
func TestPrometheusRuleHasTheAlerts(t *testing.T) {
	var operator struct{ Spec map[string]any }
	var file map[string]any
	if err := yaml.Unmarshal(read(t, "prometheusrule.yaml"), &operator); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(read(t, "alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(operator.Spec, file) {
		t.Error("the spec of prometheusrule.yaml is not alerts.yaml")
	}
}

// The monitor finds the agents' pods, and leaves the labels of the metrics as they are.
func TestPodMonitorFindsTheAgents(t *testing.T) {
	var monitor struct {
		Spec struct {
			Selector            struct{ MatchLabels map[string]string }
			PodMetricsEndpoints []struct {
				Port        string
				HonorLabels bool
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "podmonitor.yaml"), &monitor); err != nil {
		t.Fatal(err)
	}
	var agent struct {
		Spec struct {
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Containers []struct {
						Ports []struct {
							Name          string
							ContainerPort int
						}
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "../agent/daemonset.yaml"), &agent); err != nil {
		t.Fatal(err)
	}
	for k, v := range monitor.Spec.Selector.MatchLabels {
		if got := agent.Spec.Template.Metadata.Labels[k]; got != v {
			t.Errorf("the monitor looks for %s=%s, the agents have %q", k, v, got)
		}
	}
	e := monitor.Spec.PodMetricsEndpoints[0]
	port := agent.Spec.Template.Spec.Containers[0].Ports[0]
	if e.Port != port.Name || port.ContainerPort != 9201 || !e.HonorLabels {
		t.Errorf("the monitor reads %+v, the agents have %+v", e, port)
	}
}

// Every file that the kustomization names is there; those that need a decision are not among them.
func TestKustomizationIsWhole(t *testing.T) {
	var k struct {
		Resources          []string
		ConfigMapGenerator []struct{ Files []string }
	}
	if err := yaml.Unmarshal(read(t, "kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	named := append(slices.Clone(k.Resources), k.ConfigMapGenerator[0].Files...)
	for _, f := range named {
		read(t, f)
	}
	if want := []string{"authorization.yaml", "podmonitor.yaml", "prometheusrule.yaml", "dashboard.json",
		"scheduler.json"}; !slices.Equal(named, want) {
		t.Errorf("files are %v, want %v", named, want)
	}
}
