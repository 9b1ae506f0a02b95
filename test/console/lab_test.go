package console_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// machines of the lab: with two and with more NUMA nodes, with GPUs, and with several L3 caches.
const machines = "2xxeon-2s,gpu-8,epyc-nps4,xeon-snc2"

// cluster is a lab with a console, each a program as people start it.
type cluster struct {
	address    string // with the secret
	programs   string // the folder of the lab's programs
	kubeconfig string
	client     kubernetes.Interface
	any        dynamic.Interface
	layouts    dynamic.ResourceInterface
	affinities dynamic.ResourceInterface
}

func start(t *testing.T, nodes string) cluster {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+string(filepath.Separator), "./cmd/tenon-lab",
		"./cmd/kubectl-tenon")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the lab: %v\n%s", err, out)
	}
	up := program(t, nil, `export KUBECONFIG=(\S+)`, filepath.Join(dir, "tenon-lab"), "up", "--nodes", nodes)
	address := program(t, append(os.Environ(), "KUBECONFIG="+up), `(http://127\.0\.0\.1:\S+)`,
		filepath.Join(dir, "kubectl-tenon"), "console", "--no-browser")
	config, err := clientcmd.BuildConfigFromFlags("", up)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	any, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	layouts := schema.GroupVersionResource{Group: "tenon.sh", Version: "v1alpha1", Resource: "nodelayouts"}
	affinities := layouts.GroupVersion().WithResource("nodeaffinities")
	return cluster{address, dir, up, client, any, any.Resource(layouts), any.Resource(affinities)}
}

// run returns what kubectl tenon prints.
func (c cluster) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.programs, "kubectl-tenon"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl tenon %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// program starts a program that runs until the test ends, and returns the part of its output that matches the pattern's
// group.
func program(t *testing.T, env []string, want string, line ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), line[0], line[1:]...)
	cmd.Env = env
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		var ended *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &ended) {
			t.Error(err)
		}
	})
	found, err := first(out, regexp.MustCompile(want))
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(line[0]), err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return found
}

func first(r io.Reader, want *regexp.Regexp) (string, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if m := want.FindStringSubmatch(lines.Text()); m != nil {
			return m[1], nil
		}
	}
	return "", fmt.Errorf("it ended without %s", want)
}
