package queue_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commandFor is kubectl-tenon for a cluster.
type commandFor struct {
	program, kubeconfig string
}

// command returns kubectl-tenon for the cluster.
func (w *world) command(t *testing.T) commandFor {
	t.Helper()
	program, err := sharedCommand()
	if err != nil {
		t.Fatal(err)
	}
	return commandFor{program, w.KubeconfigPath}
}

// run runs a command, and returns its output and exit code.
func (c commandFor) run(ctx context.Context, t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ended := (&exec.ExitError{}); err != nil && !errors.As(err, &ended) {
		t.Fatalf("%v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// planned is what the tests read of a plan.
type planned struct {
	Found, InSteps bool

	Moves []struct{ Name, UID, From string }
	Usual []struct {
		Shape         string
		Before, After int
	}
}

// plan writes a plan into a file.
func (c commandFor) plan(ctx context.Context, t *testing.T, args ...string) (file string, p planned) {
	t.Helper()
	out, errs, code := c.run(ctx, t, append([]string{"defrag", "-o", "json"}, args...)...)
	if code > 1 {
		t.Fatalf("defrag %v: exit code %d\n%s", args, code, errs)
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, p
}

// apply carries a plan out, and calls then when the first pod is evicted.
func (c commandFor) apply(ctx context.Context, t *testing.T, file string,
	then func(*exec.Cmd)) (stdout, stderr string, code int) {
	t.Helper()
	return c.applyUntil(ctx, t, file, "is evicted from", then)
}

// applyUntil carries a plan out, and calls then when a line of the output has a part.
func (c commandFor) applyUntil(ctx context.Context, t *testing.T, file, part string,
	then func(*exec.Cmd)) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, c.program, "defrag", "apply", file, "--yes", "--answer-timeout", "30s",
		"--run-timeout", "30s")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	var out, errs strings.Builder
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	evicted := false
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if !evicted && strings.Contains(lines.Text(), part) {
			evicted = true
			then(cmd)
		}
	}
	_ = cmd.Wait() // the exit code is returned
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
