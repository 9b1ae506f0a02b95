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

func dashboard(t *testing.T) board {
	t.Helper()
	var out board
	if err := json.Unmarshal(read(t, "dashboard.json"), &out); err != nil {
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

// Every panel says what it shows, has queries of its own names, and lies on no other.
func TestDashboardIsWhole(t *testing.T) {
	b := dashboard(t)
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
			if !strings.Contains(x.Expr, `node=~"$node"`) && !strings.Contains(x.Expr, "process_") {
				t.Errorf("panel %q: %s does not ask for the chosen nodes", p.Title, x.Expr)
			}
		}
	}
	if len(b.Templating.List) != 2 {
		t.Errorf("variables are %v, want datasource and node", b.Templating.List)
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

// The document says what every alert is, and every alert is tried.
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
	if want := []string{"podmonitor.yaml", "prometheusrule.yaml", "dashboard.json"}; !slices.Equal(named, want) {
		t.Errorf("files are %v, want %v", named, want)
	}
}
