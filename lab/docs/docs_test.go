// Package docs_test executes the shell commands of the documentation in a lab.
package docs_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/command"
	"github.com/tenon-numa/tenon/lab/controllers"
	"github.com/tenon-numa/tenon/lab/scheduler"
)

const root = "../.."

func TestMain(m *testing.M) {
	lab.MaybeChild()
	controllers.MaybeChild()
	os.Exit(m.Run())
}

// block is the commands of one fenced block.
type block struct {
	page string
	line int
	text string
	why  string // it cannot run in the lab, or ""
	json string // what it prints, as the page has it right below, or ""
}

var (
	fence  = regexp.MustCompile("^( *)```(sh|console)\\s*$")
	answer = regexp.MustCompile("^ *```json\\s*$")
	marker = regexp.MustCompile(`^ *<!-- not in the lab: (.+) -->\s*$`)
)

// Blocks that cannot run in the lab, and that test/vm/realnode/install plays, are marked with a text that ends so.
const (
	machine   = "played on a virtual machine"
	apiServer = "played on an API server of its own"
)

// commands counts the command lines of a block.
func (b block) commands() (n int) {
	for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// blocks reads the blocks of a page. A marker without a following block is an error: otherwise a typing error would
// leave a block out, or run one that must not run.
func blocks(t *testing.T, page string) (out []block) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	why, inside, indent := "", (*block)(nil), ""
	below, printed := false, false // the last block is right above, and what it prints is being read
	for i, line := range strings.Split(string(data), "\n") {
		switch {
		case printed && strings.TrimSpace(line) == "```":
			printed = false
		case printed:
			out[len(out)-1].json += line + "\n"
		case inside != nil && strings.TrimSpace(line) == "```":
			out, inside, below = append(out, *inside), nil, true
		case inside != nil:
			inside.text += strings.TrimPrefix(line, indent) + "\n"
		case fence.MatchString(line):
			indent = fence.FindStringSubmatch(line)[1]
			inside, why = &block{page: page, line: i + 1, why: why}, ""
		case below && answer.MatchString(line):
			below, printed = false, true
		case marker.MatchString(line):
			why = marker.FindStringSubmatch(line)[1]
		case why != "" && strings.TrimSpace(line) != "":
			t.Errorf("%s:%d: a marker is followed by %q, want a block of commands", page, i+1, line)
			why = ""
		case strings.TrimSpace(line) != "":
			below = false
		}
	}
	return out
}

// pages are the README and all pages below docs, in order.
func pages(t *testing.T) []string {
	t.Helper()
	out := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			out = append(out, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// Every command of the documentation runs in the lab and succeeds, or is marked with the reason why it cannot run
// there.
func TestCommandsOfTheDocumentationRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	c, s := cluster(ctx, t)
	w := &workshop{ctx: ctx, kubeconfig: c.KubeconfigPath, bin: programs(ctx, t)}
	w.prepare(t)
	w.serveConsole(t, c)
	ran, marked, played := 0, 0, 0
	for _, page := range pages(t) {
		found := blocks(t, page)
		if len(found) == 0 {
			continue
		}
		dir := w.folder(t)
		for _, b := range found {
			if b.why == machine || strings.HasSuffix(b.why, apiServer) {
				played += b.commands()
				continue
			}
			if b.why != "" {
				marked += b.commands()
				t.Logf("%s:%d: %d commands need more than the lab: %s", b.page, b.line, b.commands(), b.why)
				continue
			}
			ran += b.commands()
			out, err := w.run(dir, b.text)
			if err == nil && b.json != "" {
				err = prints(out, b.json)
			}
			if err != nil {
				t.Errorf("%s:%d: %v:\n%s\n%s", b.page, b.line, err, b.text, out)
			}
		}
	}
	t.Logf("%d commands ran, %d are played elsewhere, %d need more", ran, played, marked)
	if ran < 50 || marked > ran {
		t.Errorf("%d commands ran and %d did not, want at least 50, and most", ran, marked)
	}
	w.painIsSeen(t)
	w.addressesAnswer(t, s)
}

// addressesAnswer queries the addresses that "tenon-lab up" prints, in the printed way.
func (w *workshop) addressesAnswer(t *testing.T, s *scheduler.Running) {
	t.Helper()
	for url, want := range map[string]string{s.Metrics: "tenon_leader{",
		s.Inspection: "this scheduler takes part in no election", s.Inspection + "nodes?format=text": "xeon-2s"} {
		out, err := w.run(t.TempDir(), fmt.Sprintf(command.ReadServed, url))
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q in:\n%.2000s", url, err, want, out)
		}
	}
}

// The command of the README shows a pod that kube-scheduler, without the plugin, sent to a node that refused it.
func (w *workshop) painIsSeen(t *testing.T) {
	t.Helper()
	for _, b := range blocks(t, "README.md") {
		if strings.Contains(b.text, "status.phase=Failed") {
			out, err := w.run(w.folder(t), b.text)
			if err != nil || !strings.Contains(out, "unlucky") || !strings.Contains(out, "TopologyAffinityError") {
				t.Errorf("README.md: %v, want the pod and why it failed, in:\n%s", err, out)
			}
			t.Logf("%s\n%s", b.text, out)
			return
		}
	}
	t.Error("README.md has no command that shows failed pods")
}

// cluster is one lab for all pages, with the nodes that they name. The profile plain has no plugin.
func cluster(ctx context.Context, t *testing.T) (*lab.Cluster, *scheduler.Running) {
	t.Helper()
	c, err := lab.Start(ctx, lab.Config{Nodes: []lab.Node{{Name: "xeon-2s", Machine: "xeon-2s"},
		{Name: "node-a", Machine: "gpu-8"}, {Name: "node-b", Machine: "gpu-8"}}})
	if err != nil {
		t.Fatal(err)
	}
	stopped := func(name string, stop func() error) {
		t.Cleanup(func() {
			if err := stop(); err != nil {
				t.Errorf("stop %s: %v", name, err)
			}
		})
	}
	stopped("cluster", c.Stop)
	const profiles = scheduler.Tenon + scheduler.Second + "- schedulerName: plain\n"
	s, err := scheduler.StartServed(c.Dir, c.SchedulerKubeconfig, profiles)
	if err != nil {
		t.Fatal(err)
	}
	stopped("scheduler", s.Stop)
	m, err := controllers.Start(c.Dir, c.KubeconfigPath)
	if err != nil {
		t.Fatal(err)
	}
	stopped("controllers", m.Stop)
	return c, s
}

// programs builds the programs that the pages use on a computer without a cluster, and returns the folder.
func programs(ctx context.Context, t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	build(ctx, t, root, "-o", bin+"/", "./cmd/kubectl-tenon", "./cmd/tenon-agent", "./cmd/tenon-console")
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		kubectl = filepath.Join(t.TempDir(), "kubectl")
		build(ctx, t, filepath.Join(root, "tools/kubectl"), "-o", kubectl, ".")
	}
	// These programs exist already: the go command only has to copy them to the requested path.
	const gocommand = `#!/bin/sh
case "$1 $2 $3" in
"install ./cmd/kubectl-tenon "*) ;;
"build -o bin/") mkdir -p bin && cp "$(dirname "$0")/${4#./cmd/}" bin/ ;;
"run ./cmd/kubectl-tenon "*) shift 2; exec kubectl-tenon "$@" ;;
*) echo "the test does not know: go $*" >&2; exit 1 ;;
esac
`
	// Exit code 1 of simulate is an answer: some pods do not fit.
	const kubectlcommand = `#!/bin/sh
%s "$@" || { code=$?; [ "$1 $2 $code" = "tenon simulate 1" ] || exit $code; }
`
	for name, text := range map[string]string{"go": gocommand, "kubectl": fmt.Sprintf(kubectlcommand, kubectl)} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// build runs go build in a folder; below tools, without the workspace.
func build(ctx context.Context, t *testing.T, dir string, args ...string) {
	t.Helper()
	b := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
	b.Dir, b.Env = dir, os.Environ()
	if dir != root {
		b.Env = append(b.Env, "GOWORK=off")
	}
	if out, err := b.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v:\n%s", dir, err, out)
	}
}

// workshop is where commands run.
type workshop struct {
	ctx             context.Context
	kubeconfig, bin string
	console         []string // variables by which pages reach a console
}

// run runs the commands of a block in a folder, until one fails.
func (w *workshop) run(dir, commands string) (string, error) {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "bash", "-e", "-c", commands)
	sh.Dir, sh.WaitDelay = dir, time.Second
	sh.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig, "HOME="+w.bin,
		"PATH="+w.bin+":"+os.Getenv("PATH"))
	sh.Env = append(sh.Env, w.console...)
	out, err := sh.CombinedOutput()
	return string(out), err
}

// folder is a clone of the repository as a reader has it, with files of the names that pages use.
func (w *workshop) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"api", "core", "deploy", "docs", "examples", "face", "lab"} {
		if err := os.Symlink(filepath.Join(top, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]string{"train.yaml": "face/cli/testdata/simulate-train.yaml",
		"shapes.yaml": "face/cli/testdata/simulate-train.yaml", "smaller.yaml": "face/cli/testdata/simulate-one.yaml",
		"gpu-8.txt": "lab/machines/gpu-8.txt", "gpu-8.yaml": "lab/machines/gpu-8.yaml",
		"node-a.txtar": "lab/machines/gpu-8.txt", "new.yaml": "lab/machines/gpu-8.yaml"} {
		data, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// prepare creates the objects that the pages assume, and a pod that kube-scheduler sends to a node that refuses it.
func (w *workshop) prepare(t *testing.T) {
	t.Helper()
	file, err := filepath.Abs("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.run(t.TempDir(), fmt.Sprintf(`
kubectl apply -k %s
kubectl apply -f %s
kubectl label node node-a pool=gpu
kubectl -n ml rollout status statefulset/trainer --timeout=2m
kubectl wait pod/unlucky --for=jsonpath='{.status.phase}'=Failed --timeout=2m
`, manifests, file))
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}
