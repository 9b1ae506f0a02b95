package chart_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helm "helm.sh/helm/v4/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/tenon-numa/tenon/tools/release/chart"
)

const deploy = "../../../deploy"

func render(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	c, err := chart.Load(filepath.Join(deploy, "chart"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return chart.Render(c, values, "tenon-system")
}

// objects returns the objects of all files, by kind and name.
func objects(t *testing.T, values map[string]any) map[string]*unstructured.Unstructured {
	t.Helper()
	files, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, o := range decode(t, files) {
		out[o.GetKind()+" "+o.GetName()] = o
	}
	return out
}

// decode returns the objects of YAML files, in no order.
func decode(t *testing.T, files map[string]string) (out []*unstructured.Unstructured) {
	t.Helper()
	for name, text := range files {
		for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
			var u unstructured.Unstructured
			if err := d.Decode(&u.Object); err != nil {
				if err.Error() != "EOF" {
					t.Fatalf("%s: %v\n%s", name, err, text)
				}
				break
			}
			if len(u.Object) > 0 {
				out = append(out, &u)
			}
		}
	}
	return out
}

// TestNothingHasDrifted: the derived files match the schema, the templates and other sources.
func TestNothingHasDrifted(t *testing.T) {
	files, err := chart.Generate(deploy)
	if err != nil {
		t.Fatal(err)
	}
	c, err := chart.Load(filepath.Join(deploy, "chart"), "")
	if err != nil {
		t.Fatal(err)
	}
	made, err := chart.Manifests(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range made {
		files[name] = []byte(text)
	}
	if len(made) < 8 {
		t.Errorf("only %d manifests are made of the chart", len(made))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(deploy, filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("deploy/%s is not what it is made of (%v): run tools/release/run chart", name, err)
		}
	}
}

func TestHelmLint(t *testing.T) {
	result := lint.RunAll(filepath.Join(deploy, "chart"), map[string]any{}, "tenon-system")
	for _, m := range result.Messages {
		if m.Severity > 1 {
			t.Error(m)
		}
	}
}

// TestWrongValuesAreRefused: each with a message that names the value.
func TestWrongValuesAreRefused(t *testing.T) {
	for path, value := range map[string]any{
		"image.tag":                                "a tag",
		"image.pullPolicy":                         "Sometimes",
		"agent.namespace":                          "Tenon_Agents",
		"agent.digest":                             "sha256:12",
		"agent.kubelet.directory":                  "var/lib/kubelet",
		"agent.kubelet.hidden":                     []any{"../etc"},
		"agent.maxUnavailable":                     0,
		"agent.goMemLimit":                         "lots",
		"agent.resources.limits.cpu":               "much",
		"scheduler.resources.requests.memory":      "2 GB",
		"scheduler.arguments.silentNodes":          "Ignore",
		"scheduler.arguments.silentNode":           "Refuse", // a word that is misspelt
		"scheduler.arguments.turnTimeoutSeconds":   4000,
		"scheduler.arguments.scoringStrategy.type": "Lucky",
		"scheduler.mode":                           "third",
		"scheduler.replicas":                       0,
		"scheduler.logFormat":                      "xml",
		"scheduler.weight":                         1000,
		"scheduler.profiles":                       []any{map[string]any{"name": "x"}},
		"scheduler.replica":                        2, // a word that is misspelt
		"networkPolicy.enabled":                    "yes",
		"monitoring.labels":                        map[string]any{"a": 1},
		"agent.nodeSelector":                       []any{"numa"},
		"crds.nodeResourceTopologies":              true,
	} {
		values := map[string]any{}
		keys := strings.Split(path, ".")
		at := values
		for _, k := range keys[:len(keys)-1] {
			next := map[string]any{}
			at[k] = next
			at = next
		}
		last := keys[len(keys)-1]
		at[last] = value
		_, err := render(t, values)
		if err == nil {
			t.Errorf("%s: %v is taken", path, value)
		} else if !strings.Contains(err.Error(), last) {
			t.Errorf("%s: %v is refused with a message that does not name it: %v", path, value, err)
		}
	}
}

// TestUpgradesBringDefinitions: Helm upgrades objects of templates, but only installs a folder crds. Rendering sends no
// request to the cluster, so that helm template and helm diff show the result of an upgrade.
func TestUpgradesBringDefinitions(t *testing.T) {
	c, err := chart.Load(filepath.Join(deploy, "chart"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if crds := c.CRDObjects(); len(crds) > 0 {
		t.Errorf("%s is in the folder crds, which Helm does not upgrade", crds[0].Filename)
	}
	for _, f := range c.Templates {
		if bytes.Contains(f.Data, []byte("lookup ")) {
			t.Errorf("%s uses lookup", f.Name)
		}
	}
	kept := func(values map[string]any) string {
		return objects(t, values)["CustomResourceDefinition nodelayouts.tenon.sh"].GetAnnotations()["helm.sh/resource-policy"]
	}
	if p := kept(nil); p != "keep" {
		t.Errorf("resource policy of the definition is %q, want keep: all layouts would go with the chart", p)
	}
	if p := kept(map[string]any{"crds": map[string]any{"keep": false}}); p != "" {
		t.Errorf("crds.keep is false, and the definition's resource policy is %q", p)
	}
	for _, f := range c.Files {
		if f.Name == "files/nodelayouts.tenon.sh.yaml" {
			f.Data = bytes.ReplaceAll(f.Data, []byte("plural: nodelayouts"), []byte("plural: nodelayouts\n    categories: [next]"))
		}
	}
	files, err := chart.Render(c, map[string]any{}, "tenon-system")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(files["crd/definitions.yaml"], "- next") {
		t.Error("a changed definition is not in what an upgrade applies")
	}
}

// TestModes: which schedulerName pods need.
func TestModes(t *testing.T) {
	cases := map[string]map[string]any{
		"schedulerName: tenon-scheduler":   {},
		"schedulerName: numa":              {"name": "numa"},
		"schedulerName: default-scheduler": {"mode": "only"},
		"schedulerName: hpc":               {"profiles": []any{map[string]any{"schedulerName": "hpc"}}},
	}
	for want, scheduler := range cases {
		all := objects(t, map[string]any{"scheduler": scheduler})
		text, _, _ := unstructured.NestedString(all["ConfigMap tenon-scheduler"].Object, "data", "scheduler.yaml")
		if strings.Count(text, "- schedulerName:") != 1 || !strings.Contains(text, want) {
			t.Errorf("%v: configuration\n%s\nwant %s", scheduler, text, want)
		}
	}
}

// TestAChangedConfigurationRestartsTheScheduler: its pods have an annotation that changes with it.
func TestAChangedConfigurationRestartsTheScheduler(t *testing.T) {
	sum := func(values map[string]any) string {
		d := objects(t, values)["Deployment tenon-scheduler"]
		s, _, _ := unstructured.NestedString(d.Object, "spec", "template", "metadata", "annotations", "checksum/config")
		return s
	}
	one, two := sum(nil), sum(map[string]any{"scheduler": map[string]any{"qps": 100}})
	if one == "" || one == two {
		t.Errorf("checksums %q and %q", one, two)
	}
}

// TestSwitches: objects that are off are not made, and optional ones are made when they are on.
func TestSwitches(t *testing.T) {
	off := func(group string) map[string]any { return map[string]any{group: map[string]any{"enabled": false}} }
	for name, c := range map[string]struct {
		values map[string]any
		gone   string
	}{
		"agent":     {off("agent"), "DaemonSet tenon-agent"},
		"scheduler": {off("scheduler"), "Deployment tenon-scheduler"},
		"policy":    {off("admissionPolicy"), "ValidatingAdmissionPolicy tenon-agent-writes-its-own-node"},
		"network":   {off("networkPolicy"), "NetworkPolicy tenon-agent"},
		"budget":    {map[string]any{"scheduler": map[string]any{"replicas": 1}}, "PodDisruptionBudget tenon-scheduler"},
		"crds":      {map[string]any{"crds": map[string]any{"install": false}}, "CustomResourceDefinition nodelayouts.tenon.sh"},
	} {
		if objects(t, nil)[c.gone] == nil {
			t.Errorf("%s: there is no %s by default", name, c.gone)
		}
		if objects(t, c.values)[c.gone] != nil {
			t.Errorf("%s: there is still a %s", name, c.gone)
		}
	}
	all := objects(t, map[string]any{
		"monitoring": map[string]any{"podMonitor": true, "alerts": true, "dashboard": true},
		"openshift":  map[string]any{"enabled": true},
		"crds":       map[string]any{"nodeResourceTopology": true},
		"agent":      map[string]any{"pin": map[string]any{"enabled": true}},
	})
	for _, want := range []string{"PodMonitor tenon-agent", "PodMonitor tenon-scheduler", "PrometheusRule tenon",
		"ConfigMap tenon-dashboard", "ConfigMap tenon-agent-pin", "ClusterRoleBinding tenon-agent-events",
		"SecurityContextConstraints tenon-agent",
		"CustomResourceDefinition noderesourcetopologies.topology.node.k8s.io"} {
		if all[want] == nil {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestEverySchedulerOfTheChartMayWritePlacements: where agents pin, the API server refuses the bindings of others.
func TestEverySchedulerOfTheChartMayWritePlacements(t *testing.T) {
	const policy, account = "ValidatingAdmissionPolicy tenon-placement-is-the-schedulers", "'system:serviceaccount:tenon-system:"
	for _, c := range []struct {
		values map[string]any
		may    []string
	}{
		{nil, []string{"tenon-scheduler"}},
		{map[string]any{"volcano": map[string]any{"enabled": true}}, []string{"tenon-volcano-scheduler", "tenon-scheduler"}},
	} {
		all := objects(t, c.values)
		conditions, _, err := unstructured.NestedSlice(all[policy].Object, "spec", "matchConditions")
		if err != nil || len(conditions) == 0 {
			t.Fatalf("the policy has the conditions %v (%v)", conditions, err)
		}
		expression := fmt.Sprint(conditions[0].(map[string]any)["expression"])
		if got := strings.Count(expression, account); got != len(c.may) {
			t.Errorf("values %v: %d accounts may write the annotation, want %v: %s", c.values, got, c.may, expression)
		}
		for _, name := range c.may {
			if all["ServiceAccount "+name] == nil || !strings.Contains(expression, account+name+"'") {
				t.Errorf("values %v: account %s may not write the annotation, or is not there: %s", c.values, name, expression)
			}
		}
	}
}

// TestAffinityGetsTheCapabilityThatItNeeds: only where it is on, and only with pinning.
func TestAffinityGetsTheCapabilityThatItNeeds(t *testing.T) {
	on := map[string]any{"enabled": true, "namespaces": []any{"shop", "web"}, "migrateMemory": true,
		"hostNetwork": true}
	pin := func(enabled bool) map[string]any {
		return map[string]any{"openshift": map[string]any{"enabled": true},
			"agent": map[string]any{"pin": map[string]any{"enabled": enabled, "affinity": on}}}
	}
	files, err := render(t, pin(true))
	if err != nil {
		t.Fatal(err)
	}
	for file, all := range map[string][]string{
		"agent/daemonset.yaml": {"- --affinity\n", "- --affinity-period=15s\n", "- --affinity-namespaces=shop,web\n",
			"- --affinity-migrate-memory\n", "- --affinity-host-namespace=/host/ns/net\n", "path: /proc/1/ns\n", "add: [SYS_ADMIN, SYS_PTRACE]", "type: Unconfined", "allowPrivilegeEscalation: true", "path: /var/run/netns"},
		"openshift/constraints.yaml": {"allowedCapabilities: [SYS_ADMIN, SYS_PTRACE]"},
		"agent/pin.yaml":             {"resources: [nodeaffinities]"},
	} {
		for _, want := range all {
			if !strings.Contains(files[file], want) {
				t.Errorf("%s has no %q:\n%s", file, want, files[file])
			}
		}
	}
	if files, err = render(t, pin(false)); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if strings.Contains(text, "SYS_ADMIN") || strings.Contains(text, "--affinity") {
			t.Errorf("%s has what affinity needs, without pinning", name)
		}
	}
}

// TestRightsWithoutTheChart: the files that give agents their further rights without the chart give the same rights as
// the chart.
func TestRightsWithoutTheChart(t *testing.T) {
	all := objects(t, map[string]any{"agent": map[string]any{"pin": map[string]any{"enabled": true,
		"affinity": map[string]any{"enabled": true}}}})
	for _, file := range []string{"pin/access.yaml", "pin/affinity.yaml"} {
		data, err := os.ReadFile(filepath.Join(deploy, file))
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(string(data), "---\n") {
			var u unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			chart := all[u.GetKind()+" "+u.GetName()]
			if chart == nil {
				t.Fatalf("%s: the chart has no %s %s", file, u.GetKind(), u.GetName())
			}
			for _, field := range []string{"rules", "roleRef", "subjects"} {
				if got, want := u.Object[field], chart.Object[field]; !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s of %s are %v, and the chart's %v", file, field, u.GetName(), got, want)
				}
			}
		}
	}
}

// TestThePolicyFollowsTheNamespace: the policy names the agent's service account.
func TestThePolicyFollowsTheNamespace(t *testing.T) {
	files, err := render(t, map[string]any{"agent": map[string]any{"namespace": "numa-agents"}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(files["policy/policy.yaml"], "'system:serviceaccount:numa-agents:tenon-agent'") {
		t.Error(files["policy/policy.yaml"])
	}
	for name, text := range files {
		if strings.Contains(text, "tenon-agents") {
			t.Errorf("%s still names tenon-agents", name)
		}
	}
}

// TestPackage: the same chart and date give the same archive from every folder, with the release's version in it.
func TestPackage(t *testing.T) {
	c, err := chart.Load(filepath.Join(deploy, "chart"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	date := time.Unix(1_790_000_000, 0)
	one, err := chart.Package(c, date)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir() // all files are newer there
	if err := os.CopyFS(elsewhere, os.DirFS(filepath.Join(deploy, "chart"))); err != nil {
		t.Fatal(err)
	}
	copied, err := chart.Load(elsewhere, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	two, err := chart.Package(copied, date)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("two packages differ (%v)", err)
	}
	digestOne, errOne := chart.Digest(c, date)
	digestTwo, errTwo := chart.Digest(copied, date)
	if errOne != nil || errTwo != nil || digestOne != digestTwo {
		t.Errorf("digests %s and %s (%v, %v)", digestOne, digestTwo, errOne, errTwo)
	}
	again, err := loader.LoadArchive(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	if again.Metadata.Version != "1.2.3" || again.Metadata.AppVersion != "1.2.3" || len(again.Templates) != len(c.Templates) {
		t.Errorf("version %s with %d templates", again.Metadata.Version, len(again.Templates))
	}
}

// TestHelmPullsWhatWasPushed: Helm's own client gets the chart from a registry.
func TestHelmPullsWhatWasPushed(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	c, err := chart.Load(filepath.Join(deploy, "chart"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(server.URL, "http://")
	sent, err := chart.Push(t.Context(), c, time.Unix(1_790_000_000, 0), host+"/charts")
	if err != nil {
		t.Fatal(err)
	}
	client, err := helm.NewClient(helm.ClientOptPlainHTTP(), helm.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Pull(host + "/charts/tenon:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(sent, got.Manifest.Digest) || got.Chart.Meta.Version != "1.2.3" {
		t.Errorf("pulled %s of version %s, pushed %s", got.Manifest.Digest, got.Chart.Meta.Version, sent)
	}
	if _, err := loader.LoadArchive(bytes.NewReader(got.Chart.Data)); err != nil {
		t.Error(err)
	}
}

// TestPeople: only groups that the values name get a role.
func TestPeople(t *testing.T) {
	bound := func(values map[string]any) string {
		var out []string
		for key, o := range objects(t, map[string]any{"people": values}) {
			if strings.Contains(key, "Binding tenon-nodes-view") || strings.Contains(key, "Binding tenon-operator") {
				out = append(out, fmt.Sprint(key, " ", o.GetNamespace(), " ", o.Object["subjects"]))
			}
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}
	if got := bound(map[string]any{}); got != "" {
		t.Errorf("by default are bound\n%s", got)
	}
	got := bound(map[string]any{"nodeViewers": []any{"system:authenticated"}, "operators": []any{"ops", "sre"}})
	for _, want := range []string{"ClusterRoleBinding tenon-nodes-view  [map[apiGroup:rbac.authorization.k8s.io " +
		"kind:Group name:system:authenticated]]", "ClusterRoleBinding tenon-operator", "name:ops", "name:sre"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	label := "rbac.authorization.k8s.io/aggregate-to-view"
	view := func(values map[string]any) string {
		return objects(t, map[string]any{"people": values})["ClusterRole tenon-view"].GetLabels()[label]
	}
	if on, off := view(map[string]any{}), view(map[string]any{"aggregate": false}); on != "true" || off != "" {
		t.Errorf("tenon-view has the label %q, and without people.aggregate %q", on, off)
	}
	without := map[string]any{"roles": false}
	if all := objects(t, map[string]any{"people": without}); all["ClusterRole tenon-view"] != nil {
		t.Error("people.roles is false, and there is a role")
	}
	without["operators"] = []any{"ops"}
	if _, err := render(t, map[string]any{"people": without}); err == nil || !strings.Contains(err.Error(), "people.roles") {
		t.Errorf("groups without roles: %v", err)
	}
}

// Where agents share the namespace of the release, no object is there twice, as Helm refuses such a chart. Operators
// have the rights of both namespaces there.
func TestAgentsMayShareTheNamespace(t *testing.T) {
	for _, agents := range []string{"tenon-system", "tenon-agents"} {
		files, err := render(t, map[string]any{"agent": map[string]any{"namespace": agents},
			"people": map[string]any{"operators": []any{"ops"}}})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]*unstructured.Unstructured{}
		for _, o := range decode(t, files) {
			key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			if seen[key] != nil {
				t.Errorf("with agents in %s, %s is there twice", agents, key)
			}
			seen[key] = o
		}
		role, binding := seen["Role "+agents+"/tenon-operator"], seen["RoleBinding "+agents+"/tenon-operator"]
		if role == nil || binding == nil {
			t.Fatalf("with agents in %s, Role %v, RoleBinding %v", agents, role, binding)
		}
		rules := fmt.Sprint(role.Object["rules"])
		if !strings.Contains(rules, "pods/log") || !strings.Contains(rules, "pods/portforward") {
			t.Errorf("with agents in %s, operators have the rules %s", agents, rules)
		}
	}
}

// TestTheConsole: it is off by default, impersonates only users that are named, and no one without such names.
func TestTheConsole(t *testing.T) {
	if all := objects(t, nil); all["Deployment tenon-console"] != nil || all["ServiceAccount tenon-console"] != nil {
		t.Error("the console is on by default")
	}
	on := func(more map[string]any) map[string]any {
		more["enabled"] = true
		return map[string]any{"console": more}
	}
	all := objects(t, on(map[string]any{"hosts": []any{"console.example.com"}}))
	for _, want := range []string{"Deployment tenon-console", "Service tenon-console", "NetworkPolicy tenon-console",
		"ServiceAccount tenon-console"} {
		if all[want] == nil {
			t.Errorf("there is no %s", want)
		}
	}
	if all["ClusterRole tenon-console-impersonates"] != nil {
		t.Error("the console may act as others by default")
	}
	text := fmt.Sprint(all["Deployment tenon-console"].Object)
	for _, want := range []string{"tenon-console.tenon-system.svc,console.example.com", "secretName:tenon-console-tls",
		"readOnlyRootFilesystem:true", "GOMEMLIMIT"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Deployment lacks %s: %s", want, text)
		}
	}
	proxy := map[string]any{"names": []any{"sso"}, "caConfigMap": "sso-ca"}
	if _, err := render(t, on(map[string]any{"proxy": proxy})); err == nil {
		t.Error("a proxy may name every user")
	}
	proxy["users"] = []any{"anna"}
	role := objects(t, on(map[string]any{"proxy": proxy}))["ClusterRole tenon-console-impersonates"]
	if text := fmt.Sprint(role.Object["rules"]); !strings.Contains(text, "resourceNames:[anna]") ||
		strings.Contains(text, "groups") {
		t.Errorf("rules %s", text)
	}
}

// Publishing Volcano's object takes a flag and a right, and neither is there without the value.
func TestNumatopology(t *testing.T) {
	for _, on := range []bool{false, true} {
		all := objects(t, map[string]any{"agent": map[string]any{"publishNumatopology": on}})
		for name, text := range map[string]string{"DaemonSet tenon-agent": "--numatopology",
			"ClusterRole tenon-agent": "numatopologies"} {
			o := all[name]
			if o == nil {
				t.Fatalf("no %s", name)
			}
			data, err := o.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), text) != on {
				t.Errorf("%s has %s: %v, want %v", name, text, !on, on)
			}
		}
	}
}

// Volcano's scheduler is off by default. It gets the configuration of the values, and by OpenShift and Prometheus what
// the other scheduler gets.
func TestVolcano(t *testing.T) {
	for name := range objects(t, nil) {
		if strings.Contains(name, "volcano") {
			t.Errorf("%s is made by default", name)
		}
	}
	all := objects(t, map[string]any{
		"volcano": map[string]any{"enabled": true, "schedulerName": "batch", "configuration": map[string]any{
			"actions": "allocate", "tiers": []any{map[string]any{"plugins": []any{map[string]any{"name": "tenon"}}}}}},
		"monitoring": map[string]any{"podMonitor": true},
		"openshift":  map[string]any{"enabled": true},
	})
	for _, kind := range []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "NetworkPolicy",
		"PodDisruptionBudget", "PodMonitor"} {
		if all[kind+" tenon-volcano-scheduler"] == nil {
			t.Errorf("there is no %s", kind)
		}
	}
	if all["RoleBinding tenon-volcano-scheduler-nonroot"] == nil {
		t.Error("OpenShift would not start it")
	}
	got, _, _ := unstructured.NestedString(all["ConfigMap tenon-volcano-scheduler"].Object, "data", "volcano-scheduler.conf")
	if !strings.Contains(got, "actions: allocate\n") || !strings.Contains(got, "- name: tenon") {
		t.Errorf("the configuration is\n%s", got)
	}
	text, err := all["Deployment tenon-volcano-scheduler"].MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ghcr.io/tenon-numa/tenon-volcano-scheduler:", "--scheduler-name=batch", `"app":"volcano-scheduler"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the Deployment has no %s", want)
		}
	}
	for _, wrong := range []map[string]any{{"tiers": []any{}}, {"actions": ""}, {"plugins": []any{}}} {
		if _, err := render(t, map[string]any{"volcano": map[string]any{"enabled": true, "configuration": wrong}}); err == nil {
			t.Errorf("configuration %v is taken", wrong)
		}
	}
}
