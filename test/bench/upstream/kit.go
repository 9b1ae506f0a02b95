package upstream

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tenon-numa/tenon/test/bench/programs"
)

// Kit has the programs and folders of a measurement.
type Kit struct {
	root     string // of the checkout
	upstream string // folder of upstream's test cases
	dir      string // of the programs
	harness  string // the test binary
}

// Build builds the harness and etcd in dir. It reads upstream's test cases where the go command has unpacked the module
// of Kubernetes.
func Build(ctx context.Context, dir string) (*Kit, error) {
	root, err := programs.Checkout(ctx)
	if err != nil {
		return nil, err
	}
	k := &Kit{root: root, dir: dir, harness: filepath.Join(dir, "harness")}
	module, err := k.run(ctx, "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	k.upstream = filepath.Join(strings.TrimSpace(module), "test", "integration", "scheduler_perf")
	if _, err := k.run(ctx, "test", "-c", "-o", k.harness, "./test/bench/upstream/harness"); err != nil {
		return nil, err
	}
	// Upstream's code starts a program with the name etcd. It is built from the module that the lab runs in its own
	// process.
	_, err = k.run(ctx, "build", "-o", filepath.Join(dir, "etcd"), "go.etcd.io/etcd/server/v3")
	return k, err
}

// run runs the go command in the checkout, and returns its output.
func (k *Kit) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = k.root
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out), nil
}

// topic returns the folder of a topic.
func (k *Kit) topic(name string) string {
	if name == NUMA {
		return filepath.Join(k.root, "test", "bench", "upstream", NUMA)
	}
	return filepath.Join(k.upstream, name)
}

func (k *Kit) deployed() string {
	return filepath.Join(k.root, "deploy", "scheduler", "scheduler.yaml")
}

// environment returns the environment of a run: the built etcd is found first, and temporary files are in temp.
func (k *Kit) environment(dir, temp string) []string {
	return append(os.Environ(), "PATH="+k.dir+string(os.PathListSeparator)+os.Getenv("PATH"),
		jobEnv+"="+filepath.Join(dir, "job.json"), "TMPDIR="+temp)
}

// memory returns a folder in a file system in memory if there is one, so that no disk slows etcd down.
func memory() string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return os.TempDir()
}
