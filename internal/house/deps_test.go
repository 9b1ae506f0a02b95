package house_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// budget is every module that the code imports, with the reason for which it is worth its weight.
var budget = map[string]string{
	"github.com/chromedp/cdproto":         "What chromedp says to a browser.",
	"github.com/chromedp/chromedp":        "A real browser, for the tests of the console's pages.",
	"github.com/google/go-cmp":            "Differences of long texts in failures of tests.",
	"github.com/fsnotify/fsnotify":        "The agent learns of changes of the kubelet's state files without polling.",
	"github.com/containerd/nri":           "The node agent's connection to the container runtime, and its judge in tests.",
	"github.com/go-logr/logr":             "The logger's interface that Kubernetes' libraries take.",
	"github.com/google/cadvisor":          "The same of a lab kubelet up to Kubernetes 1.36.",
	"github.com/google/cadvisor/lib":      "The machine of a lab kubelet; the judge of what discovery finds.",
	"github.com/prometheus/client_golang": "Metrics of the agent and the lab's kubelets; Prometheus' client.",
	"github.com/prometheus/client_model":  "Metrics as the parser of their text has them.",
	"github.com/prometheus/common":        "The parser of the text of metrics.",
	"github.com/spf13/cobra":              "Command lines that behave like kubectl's and kube-scheduler's.",
	"github.com/spf13/pflag":              "The flags of cobra.",
	"go.etcd.io/etcd/server/v3":           "The lab's store, inside the process.",
	"go.opentelemetry.io/otel/trace":      "A lab kubelet takes a tracer; it gets the one that does nothing.",
	"go.yaml.in/yaml/v3":                  "YAML with comments and aliases: to edit configurations, to bound aliases.",
	"go.uber.org/zap":                     "The logger that etcd takes.",
	"golang.org/x/sys":                    "The kernel's counters of sockets; network namespaces.",
	"golang.org/x/term":                   "Whether the output is a terminal, and how wide.",
	"golang.org/x/tools":                  "The txtar format, in which the snapshot of a machine is one text file.",
	"google.golang.org/grpc":              "The kubelet's podresources and device plugin services.",
	"github.com/tenon-numa/tenon":         "The product, for the modules that measure it and that boot nodes.",
	"github.com/tenon-numa/tenon/api/pod": "Pods as the core has them, a module of its own for programs with other " +
		"Kubernetes libraries.",
	"github.com/tenon-numa/tenon/core": "Floor 0, a module of its own so that programs with other Kubernetes " +
		"libraries can import it.",
	"k8s.io/api":                         "Pod, Node and the other objects of the API server.",
	"k8s.io/apiextensions-apiserver":     "The lab installs CustomResourceDefinitions.",
	"k8s.io/apimachinery":                "Object metadata, quantities, schemes.",
	"k8s.io/apiserver":                   "The lab's API server; signals and authorization of the scheduler.",
	"k8s.io/client-go":                   "Clients, informers, kubeconfig files.",
	"k8s.io/component-base":              "Flags, logs and metrics as kube-scheduler has them.",
	"k8s.io/component-helpers":           "Pod-level resources, counted as the kubelet counts them.",
	"k8s.io/cri-api":                     "The container runtime that a lab kubelet talks to.",
	"k8s.io/dynamic-resource-allocation": "The claims that the scheduler's plugin for devices allocates.",

	"k8s.io/klog/v2":        "The logger of Kubernetes' libraries.",
	"k8s.io/kube-scheduler": "The scheduler framework's interfaces.",
	"k8s.io/kubectl": "The QoS class of a pod as Kubernetes computes it, against which tests " +
		"compare api/pod.",
	"k8s.io/kubelet":     "The kubelet's configuration and service types.",
	"k8s.io/kubernetes":  "The scheduler of the plugin, and the kubelet that judges predictions.",
	"k8s.io/mount-utils": "A lab kubelet takes a mounter; it gets one that mounts nothing.",
	"k8s.io/streaming":   "Connections that forward a port of a pod, as client-go makes them.",
	"k8s.io/utils":       "Pointers to values, bounded caches, and CPU sets as the kubelet's interfaces have them.",
	"pgregory.net/rapid": "Property tests that shrink what they find.",
	"sigs.k8s.io/yaml":   "YAML as Kubernetes reads it, strictly.",

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api": "The types of NodeResourceTopology.",
	"github.com/k8stopologyawareschedwg/podfingerprint":           "The fingerprint of a node's pods.",
}

// all is every module of the budget.
func all() []string {
	var out []string
	for m := range budget {
		out = append(out, m)
	}
	slices.Sort(out)
	return out
}

func TestBudget(t *testing.T) {
	gm := goMod(t)
	if len(gm.replaced) > 0 {
		t.Errorf("a go.mod of the workspace replaces %s: importers of the module would build other code than its tests",
			strings.Join(gm.replaced, ", "))
	}
	for _, m := range gm.direct {
		if _, ok := budget[m]; !ok {
			t.Errorf("a go.mod of the workspace requires %s: say in budget why", m)
		}
	}
	for m, why := range budget {
		if !slices.Contains(gm.modules(), m) {
			t.Errorf("budget has %s, which no go.mod of the workspace requires", m)
		}
		if !strings.HasSuffix(why, ".") {
			t.Errorf("budget of %s is not a sentence: %q", m, why)
		}
	}
	for _, p := range packages(t) {
		for _, imp := range p.imports(true) {
			if _, own := inside(imp); own || standard(imp) {
				continue
			}
			if m := moduleOf(imp, gm.modules()); budget[m] == "" {
				t.Errorf("package %s imports %s: module %q is not in budget", p.path, imp, m)
			}
		}
	}
}

// moduleOf returns the longest module path that an import begins with, or "".
func moduleOf(imp string, modules []string) string {
	for p := imp; p != "."; p = path.Dir(p) {
		if slices.Contains(modules, p) {
			return p
		}
	}
	return ""
}

// requirements are the modules that go.mod files name.
type requirements struct{ direct, indirect, replaced []string }

func (r requirements) modules() []string { return slices.Concat(r.direct, r.indirect) }

// goMod reads the go.mod of every module of the workspace.
func goMod(t *testing.T) (r requirements) {
	t.Helper()
	for _, dir := range used(document(t, "go.work")) {
		one := parseGoMod(document(t, path.Join(dir, "go.mod")))
		r.direct = append(r.direct, one.direct...)
		r.indirect = append(r.indirect, one.indirect...)
		r.replaced = append(r.replaced, one.replaced...)
	}
	return r
}

// used returns the folders of the modules that go.work uses, from the root; the root is ".".
func used(work string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^\t(\.[^ \n]*)$`).FindAllStringSubmatch(work, -1) {
		out = append(out, path.Clean(m[1]))
	}
	return out
}

func parseGoMod(data string) (r requirements) {
	block := ""
	for line := range strings.Lines(data) {
		text, comment, _ := strings.Cut(line, "//")
		w := strings.Fields(text)
		switch {
		case len(w) == 0:
			continue
		case w[0] == ")":
			block = ""
			continue
		case len(w) == 2 && w[1] == "(":
			block = w[0]
			continue
		case block != "":
			w = append([]string{block}, w...)
		}
		switch {
		case w[0] == "replace":
			r.replaced = append(r.replaced, w[1])
		case w[0] == "require" && strings.TrimSpace(comment) == "indirect":
			r.indirect = append(r.indirect, w[1])
		case w[0] == "require":
			r.direct = append(r.direct, w[1])
		}
	}
	return r
}
