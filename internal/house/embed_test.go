package house_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// inEmbed runs a go command in examples/embed, outside the workspace, as a stranger's program is built.
func inEmbed(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join(rootFolder, "examples", "embed")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in examples/embed: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// A program with Kubernetes libraries of another release imports core and api/pod, and neither client-go nor kubectl
// come with them.
func TestEmbedExample(t *testing.T) {
	want := document(t, "examples/embed/want.txt")
	if got := inEmbed(t, "run", ".", "nodes.yaml", "pod.yaml"); got != want {
		t.Errorf("output is\n%s\nwant\n%s", got, want)
	}
	for _, m := range []string{"k8s.io/api", "k8s.io/apimachinery"} {
		if v := inEmbed(t, "list", "-m", "-f", "{{.Version}}", m); !strings.HasPrefix(v, "v0.34.") {
			t.Errorf("%s is %s, want v0.34", m, strings.TrimSpace(v))
		}
	}
	for m := range strings.Lines(inEmbed(t, "list", "-m", "-f", "{{.Path}}", "all")) {
		switch m = strings.TrimSpace(m); m {
		case module, "k8s.io/client-go", "k8s.io/kubectl", "k8s.io/component-helpers", "k8s.io/kubernetes":
			t.Errorf("%s comes with core and api/pod", m)
		}
	}
	for p := range strings.Lines(inEmbed(t, "list", "-deps", ".")) {
		p = strings.TrimSpace(p)
		own := strings.HasPrefix(p, module+"/core") || strings.HasPrefix(p, module+"/api/pod") ||
			p == path.Join(module, "examples/embed")
		if strings.HasPrefix(p, module) && !own {
			t.Errorf("the program links %s", p)
		}
	}
}
