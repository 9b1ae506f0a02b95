package chart_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenon-numa/tenon/tools/release/chart"
)

const (
	cloned      = ""                           // leaves the version of the folder deploy/chart
	development = "0.0.0-dev.g4f63f781c2aa"    // as make chart gives it
	mirror      = "registry.example.com/tenon" // has images
)

// TestAChartWithoutImagesIsNotInstalled: Helm would report success, and no pod would start. Each refusal names the remedy.
func TestAChartWithoutImagesIsNotInstalled(t *testing.T) {
	image := func(values map[string]any) map[string]any { return map[string]any{"image": values} }
	digest := "sha256:" + strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		version string
		values  map[string]any
		want    string // in the refusal; empty where the chart is rendered
	}{
		"a clone's chart":              {cloned, nil, "make push REGISTRY=..."},
		"a clone's chart, registry":    {cloned, image(map[string]any{"registry": mirror}), "image.tag"},
		"a clone's chart, tag":         {cloned, image(map[string]any{"registry": mirror, "tag": development}), ""},
		"nothing is published":         {development, nil, "image.pullPolicy to Never"},
		"images are pushed":            {development, image(map[string]any{"registry": mirror}), ""},
		"images are on the nodes":      {development, image(map[string]any{"pullPolicy": "Never"}), ""},
		"a release":                    {"1.2.3", nil, ""},
		"digests of other images":      {cloned, map[string]any{"agent": map[string]any{"digest": digest}, "scheduler": map[string]any{"digest": digest}}, ""},
		"a digest of one of two":       {cloned, map[string]any{"agent": map[string]any{"digest": digest}}, "image.tag"},
		"a program that does not run":  {cloned, map[string]any{"agent": map[string]any{"digest": digest}, "scheduler": map[string]any{"enabled": false}}, ""},
		"the console's image, however": {cloned, map[string]any{"agent": map[string]any{"enabled": false}, "scheduler": map[string]any{"enabled": false}, "console": map[string]any{"enabled": true}}, "image.tag"},
	} {
		c0, err := chart.Load(filepath.Join(deploy, "chart"), c.version)
		if err != nil {
			t.Fatal(err)
		}
		switch _, err = chart.Render(c0, c.values, "tenon-system"); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want a refusal with %q", name, err, c.want)
		}
	}
}

// TestAChartOfARegistryNamesItsImages: who installs a chart from a registry does not have to name the registry again.
func TestAChartOfARegistryNamesItsImages(t *testing.T) {
	c, err := chart.Load(filepath.Join(deploy, "chart"), development)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"", "localhost:5000/", "a b", "x\n  tag: y", "ghcr.io/tenon@sha256:1", "{{ 1 }}"} {
		if err := chart.SetRegistry(c, wrong); err == nil {
			t.Errorf("the registry %q is taken", wrong)
		}
	}
	for _, registry := range []string{"localhost:5000/tenon", mirror} {
		if err := chart.SetRegistry(c, registry); err != nil {
			t.Fatal(err)
		}
		for _, name := range images(t, c, everything()) {
			if !strings.HasPrefix(strings.Replace(name, "kubectl-tenon", "tenon-", 1), registry+"/tenon-") || !strings.HasSuffix(name, ":"+development) {
				t.Errorf("image %s, want one of %s", name, registry)
			}
		}
	}
	data, err := chart.Package(c, time.Unix(1_790_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if got := packed.Values["image"].(map[string]any)["registry"]; got != mirror {
		t.Errorf("the package's default registry is %v, want %s", got, mirror)
	}
}

// everything are values that make every object of the chart.
func everything() map[string]any {
	on := func() map[string]any { return map[string]any{"enabled": true} }
	return map[string]any{
		"agent":      map[string]any{"pin": map[string]any{"enabled": true, "affinity": on()}, "publishNumatopology": true},
		"volcano":    on(),
		"console":    on(),
		"room":       on(),
		"openshift":  on(),
		"crds":       map[string]any{"nodeResourceTopology": true},
		"monitoring": map[string]any{"podMonitor": true, "alerts": true, "dashboard": true},
	}
}

// images returns the images of all pods that a chart makes of values.
func images(t *testing.T, c *helmchart.Chart, values map[string]any) (out []string) {
	t.Helper()
	files, err := chart.Render(c, values, "tenon-system")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range decode(t, files) {
		at := []string{"spec", "template", "spec", "containers"}
		if o.GetKind() == "CronJob" {
			at = append([]string{"spec", "jobTemplate"}, at...)
		}
		containers, _, err := unstructured.NestedSlice(o.Object, at...)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range containers {
			out = append(out, fmt.Sprint(one.(map[string]any)["image"]))
		}
	}
	if len(out) != 5 {
		t.Fatalf("images are %v, want five", out)
	}
	return out
}

// TestEveryImageIsOfTheRegistry: where nodes reach a mirror only, one value names it for all images.
func TestEveryImageIsOfTheRegistry(t *testing.T) {
	c, err := chart.Load(filepath.Join(deploy, "chart"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	values := everything()
	values["image"] = map[string]any{"registry": mirror}
	want := []string{mirror + "/kubectl-tenon:1.2.3"}
	for _, name := range []string{"agent", "console", "scheduler", "volcano-scheduler"} {
		want = append(want, mirror+"/tenon-"+name+":1.2.3")
	}
	got := images(t, c, values)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("images are %v, want %v", got, want)
	}
}

// TestOpenShift: each program may run as its pod demands, and the agents may read the kubelet's files.
func TestOpenShift(t *testing.T) {
	label := func(values map[string]any) map[string]any {
		t.Helper()
		spec := objects(t, values)["DaemonSet tenon-agent"].Object
		out, _, err := unstructured.NestedMap(spec, "spec", "template", "spec", "securityContext", "seLinuxOptions")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	openshift := map[string]any{"enabled": true}
	own := map[string]any{"seLinuxOptions": map[string]any{"type": "tenon_agent_t", "level": "s0"}}
	for name, c := range map[string]struct {
		values map[string]any
		want   map[string]any
	}{
		"elsewhere":               {nil, nil},
		"elsewhere, with SELinux": {map[string]any{"agent": own}, map[string]any{"type": "tenon_agent_t", "level": "s0"}},
		"OpenShift":               {map[string]any{"openshift": openshift}, map[string]any{"type": "spc_t"}},
		"OpenShift, own policy":   {map[string]any{"openshift": openshift, "agent": own}, map[string]any{"type": "tenon_agent_t", "level": "s0"}},
	} {
		if got := label(c.values); !maps.Equal(got, c.want) {
			t.Errorf("%s: the agents' label is %v, want %v", name, got, c.want)
		}
	}
	all := objects(t, everything())
	for name, o := range all {
		if o.GetKind() != "Deployment" {
			continue
		}
		account, _, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "serviceAccountName")
		b := all["RoleBinding "+account+"-nonroot"]
		if b == nil {
			t.Errorf("%s: no binding lets %s use a user and a group of its own", name, account)
			continue
		}
		if text := fmt.Sprint(b.Object["roleRef"], b.Object["subjects"]); !strings.Contains(text, "system:openshift:scc:nonroot-v2") ||
			!strings.Contains(text, "name:"+account+" ") {
			t.Errorf("%s is bound by %s", account, text)
		}
	}
}

// TestSyncWaves: Argo CD makes what has to be in force before the agents start in an earlier wave, and nothing else.
func TestSyncWaves(t *testing.T) {
	first := []string{"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"SecurityContextConstraints"}
	for name, o := range objects(t, everything()) {
		wave := o.GetAnnotations()["argocd.argoproj.io/sync-wave"]
		if want := slices.Contains(first, o.GetKind()); (wave == "-1") != want || !want && wave != "" {
			t.Errorf("%s is in wave %q; whether it has to be in wave -1: %v", name, wave, want)
		}
	}
}

// TestLayoutsStay: Helm, Flux and Argo CD leave the definitions, unless the administrator wants them to go.
func TestLayoutsStay(t *testing.T) {
	for _, keep := range []bool{true, false} {
		o := objects(t, map[string]any{"crds": map[string]any{"keep": keep}})["CustomResourceDefinition nodelayouts.tenon.sh"]
		for name, value := range map[string]string{"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false"} {
			if got := o.GetAnnotations()[name]; (got == value) != keep {
				t.Errorf("crds.keep is %v, and the definition has %s: %q", keep, name, got)
			}
		}
	}
}

// TestNotes: what Helm prints names the commands that show whether pods run, and the images that nodes pull.
func TestNotes(t *testing.T) {
	for name, c := range map[string]struct {
		values   map[string]any
		has, not []string
	}{
		"default": {map[string]any{}, []string{"-n tenon-agents rollout status daemonset/tenon-agent",
			"-n tenon-system rollout status deployment/tenon-scheduler", "ImagePullBackOff", "kubectl get nodelayouts",
			"ghcr.io/tenon-numa/tenon-agent:1.2.3\n", "schedulerName: tenon-scheduler\n"}, []string{"console", "is installed", "Volcano"}},
		"only scheduler": {map[string]any{"scheduler": map[string]any{"mode": "only"}},
			[]string{"Stop kube-scheduler"}, []string{"schedulerName:"}},
		"agents": {map[string]any{"scheduler": map[string]any{"enabled": false}}, []string{"daemonset/tenon-agent"},
			[]string{"deployment/tenon-scheduler", "schedulerName"}},
		"everything": {everything(), []string{"deployment/tenon-console", "Volcano's own"}, nil},
	} {
		text := notes(t, c.values, "v"+ofKubernetes(t)+".0")
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		for _, wrong := range c.not {
			if strings.Contains(text, wrong) {
				t.Errorf("%s: %q in\n%s", name, wrong, text)
			}
		}
		for line := range strings.Lines(text) {
			if len(line) > 121 {
				t.Errorf("%s: a line of %d columns: %s", name, len(line), line)
			}
		}
	}
}

// TestNotesWarnOfAnOlderAPIServer: a scheduler that is newer than the API server is not supported.
func TestNotesWarnOfAnOlderAPIServer(t *testing.T) {
	agents := map[string]any{"scheduler": map[string]any{"enabled": false}}
	for _, c := range []struct {
		server string
		values map[string]any
		warns  bool
	}{
		{"v1.36.2", nil, true}, {"v1.30.14-eks-1a2b", nil, true}, {"v1.36.2", agents, false},
		{"v1.37.0", nil, false}, {"v1.37.0-rc.0", nil, false}, {"v1.37.3-gke.100", nil, false}, {"v1.38.0", nil, false},
	} {
		text := notes(t, c.values, c.server)
		if got := strings.Contains(text, "WARNING: tenon-scheduler is a kube-scheduler "+ofKubernetes(t)); got != c.warns {
			t.Errorf("API server %s: warns %t, want %t:\n%s", c.server, got, c.warns, text)
		}
	}
	if text := notes(t, nil, "v1.35.1-eks-1"); !strings.Contains(text, "make push RELEASE=1.35\n") {
		t.Errorf("no command that builds for 1.35:\n%s", text)
	}
}

// ofKubernetes returns the minor release of Kubernetes of the main module.
func ofKubernetes(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deploy, "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`k8s\.io/kubernetes v(1\.\d+)\.`).FindSubmatch(data)
	if m == nil {
		t.Fatal("go.mod names no release of k8s.io/kubernetes")
	}
	return string(m[1])
}

// notes returns what Helm prints after the chart has been installed with values, on an API server of a version.
func notes(t *testing.T, values map[string]any, server string) string {
	t.Helper()
	c, err := chart.Load(filepath.Join(deploy, "chart"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{Name: "tenon", Namespace: "tenon-system", Revision: 1, IsInstall: true}
	version, err := common.ParseKubeVersion(server)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := *common.DefaultCapabilities
	capabilities.KubeVersion = *version
	all, err := util.ToRenderValues(c, values, options, &capabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	return files["tenon/templates/NOTES.txt"]
}

// TestExamplesOfGitOps: the values in the examples for Argo CD and Flux are values of the chart, and name the chart by
// its name.
func TestExamplesOfGitOps(t *testing.T) {
	for file, path := range map[string][]string{
		"argocd.yaml": {"spec", "source", "helm", "valuesObject"},
		"flux.yaml":   {"spec", "values"},
	} {
		data, err := os.ReadFile(filepath.Join(deploy, "..", "docs", "examples", file))
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("REGISTRY"), []byte("registry.example.com")), []byte("VERSION"),
			[]byte("1.2.3"))
		found := false
		for _, o := range decode(t, map[string]string{file: string(data)}) {
			values, ok, err := unstructured.NestedMap(o.Object, path...)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				continue
			}
			found = true
			c, err := chart.Load(filepath.Join(deploy, "chart"), "0.0.0-one")
			if err != nil {
				t.Fatal(err)
			}
			files, err := chart.Render(c, values, "tenon-system")
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if !strings.Contains(files["agent/daemonset.yaml"], "image: registry.example.com/tenon/tenon-agent:0.0.0-one") {
				t.Errorf("%s: the agent's image is not of the registry that the chart is in", file)
			}
		}
		if !found {
			t.Errorf("%s has no values at %s", file, strings.Join(path, "."))
		}
		if strings.Count(string(data), "registry.example.com/tenon/charts") != 1 {
			t.Errorf("%s does not name the chart where make push puts it", file)
		}
	}
}

// An agent on a node of many CPUs takes no more memory than on a small one: Go keeps some for each CPU that it may use.
func TestAgentsUseFewProcessors(t *testing.T) {
	containers, _, err := unstructured.NestedSlice(objects(t, nil)["DaemonSet tenon-agent"].Object,
		"spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		if text := fmt.Sprint(c); !strings.Contains(text, "map[name:GOMAXPROCS value:2]") {
			t.Errorf("the container does not set GOMAXPROCS: %s", text)
		}
	}
}
