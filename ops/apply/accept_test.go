package apply

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/document"
)

// A forged plan brings nothing to a node except what the planner itself writes.
func TestPlansBringNothingElse(t *testing.T) {
	good := document.KubeletPlanNode{Name: "node-a.example",
		DropIn:     "kind: KubeletConfiguration\ncpuManagerPolicy: static\n",
		StateFiles: []string{"cpu_manager_state", "memory_manager_state"}}
	if err := accept(good.Name, configurationOf(good)); err != nil {
		t.Errorf("a plan is refused: %v", err)
	}
	for name, spoil := range map[string]func(n *document.KubeletPlanNode){
		"a path of the API":  func(n *document.KubeletPlanNode) { n.Name = "../namespaces/kube-system" },
		"no name":            func(n *document.KubeletPlanNode) { n.Name = "" },
		"a path":             func(n *document.KubeletPlanNode) { n.StateFiles = []string{"../../etc/shadow"} },
		"all files":          func(n *document.KubeletPlanNode) { n.StateFiles = []string{"*"} },
		"a command":          func(n *document.KubeletPlanNode) { n.StateFiles = []string{"x';reboot;'"} },
		"two names in one":   func(n *document.KubeletPlanNode) { n.StateFiles = []string{"cpu_manager_state pki"} },
		"claims of pods":     func(n *document.KubeletPlanNode) { n.StateFiles = []string{"dra_manager_state"} },
		"the kubelet's keys": func(n *document.KubeletPlanNode) { n.StateFiles = []string{"pki"} },
		"anonymous requests": func(n *document.KubeletPlanNode) {
			n.DropIn += "authentication: {anonymous: {enabled: true}}\n"
		},
		"pods of a URL":          func(n *document.KubeletPlanNode) { n.DropIn += "staticPodURL: http://example.com\n" },
		"a file that is no YAML": func(n *document.KubeletPlanNode) { n.DropIn = "\t{" },
		"a large file":           func(n *document.KubeletPlanNode) { n.DropIn += "#" + strings.Repeat("x", maxDropIn) },
	} {
		n := good
		if spoil(&n); accept(n.Name, configurationOf(n)) == nil {
			t.Errorf("%s: accepted", name)
		}
		if err := (&Pods{}).Begin(t.Context(), n.Name, configurationOf(n)); err == nil {
			t.Errorf("%s: begun", name)
		}
	}
	for _, path := range []string{"conf.d", "/etc/../root", "/x';reboot;'", "/a b", "/a\nb", "/$(reboot)"} {
		if (PodOptions{ConfigDir: path}).check() == nil {
			t.Errorf("the path %q is accepted", path)
		}
	}
}

// A program on the node with the name kubelet cannot make the script execute a command on the host. The script touches
// no files but state files.
func TestANodeExecutesNoValues(t *testing.T) {
	const evil = "DIR/x';echo>DIR/hacked;'"
	for name, spoil := range map[string]func(h *host) (file string){
		"a directory": func(h *host) string { h.cmdline("--config-dir=" + evil); return "" },
		"a file":      func(h *host) string { h.cmdline("--config=" + evil); return "" },
		"a root":      func(h *host) string { h.cmdline("--config-dir=DIR/conf.d\x00--root-dir=" + evil); return "" },
		"a way up":    func(h *host) string { h.cmdline("--config-dir=DIR/conf.d/../../x"); return "" },
		"state files": func(h *host) string { h.t.Setenv("TENON_TEST_STATE", "config.yaml"); return "" },
	} {
		h := newHost(t, "--config-dir=DIR/conf.d", "--root-dir=DIR/lib")
		t.Setenv("TENON_TEST_STATE", "")
		spoil(h)
		log, err := h.run("change", "maxPods: 50\n", stop, keep)
		if err != nil || !strings.Contains(log, "tenon: failed: ") || h.read("hacked") != "none" ||
			h.read("calls") != "none" {
			t.Errorf("%s: hacked %q, commands %q, %v\n%s", name, h.read("hacked"), h.read("calls"), err, log)
		}
	}
}
