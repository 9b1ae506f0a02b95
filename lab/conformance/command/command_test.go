package command_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/lab/conformance/command"
)

func execute(args ...string) (string, error) {
	var out strings.Builder
	cmd := command.New()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.Execute()
	return out.String(), err
}

// Wrong arguments are errors before a cluster starts.
func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "--scheduler or --scheduler-name"},
		{"--scheduler none-such", `"none-such" is none of`},
		{"--scheduler tenon --scheduler-name mine", "excludes"},
		{"--scheduler tenon --level best", `"best"`},
		{"--scheduler tenon -o yaml", `"yaml"`},
		{"--scheduler tenon --short --page x.md", "--page excludes"},
		{"--list --only no-such-case", "no-such-case"},
		{"--kubeconfig x --scheduler tenon", "--kubeconfig excludes --scheduler"},
		{"--kubeconfig x --scheduler-name s --level exact", "up to level live"},
		{"--kubeconfig x --scheduler-name s --numa 2x8 --shared-nodes", "--shared-nodes excludes --numa"},
		{"--kubeconfig x", "--scheduler-name is missing"},
		{"--kubeconfig /no/such/file --scheduler-name s", "/no/such/file"},
		{"--kubeconfig x --list --only no-such-case", "no-such-case"},
		{"--list --cases /no/such/folder", "/no/such/folder"},
	} {
		_, err := execute(strings.Fields(c.args)...)
		if err == nil || command.ExitCode(err) != command.ExitError || !strings.Contains(err.Error(), c.want) &&
			c.want != "/no/such/folder" {
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		}
	}
}

func TestExitCodesTellMissesFromErrors(t *testing.T) {
	for err, want := range map[error]int{nil: 0, fmt.Errorf("%w: exact", command.ErrMissed): 1, errors.New("other"): 2} {
		if got := command.ExitCode(err); got != want {
			t.Errorf("exit code of %v is %d, want %d", err, got, want)
		}
	}
}

// The list has the selected cases, also from a folder of the user.
func TestCasesAreListed(t *testing.T) {
	out, err := execute("--list", "--only", "preempt-*")
	if err != nil || !strings.Contains(out, "preempt-one-numa") || strings.Contains(out, "sidecar") {
		t.Errorf("list (%v):\n%s", err, out)
	}
	out, err = execute("--list", "--kubeconfig", "x")
	if err != nil || !strings.Contains(out, "full-halves") || strings.Contains(out, "sidecar") {
		t.Errorf("list for a running cluster (%v):\n%s", err, out)
	}
	dir := t.TempDir()
	text := "level: safe\nwhy: w\nsource: s\nmachine: ordinary\nnodes: [{name: a}]\n" +
		"steps: [{create: [{name: p, spec: {containers: [{}]}}]}]\n"
	if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err = execute("--list", "--cases", dir); err != nil || !strings.Contains(out, "mine") {
		t.Errorf("list (%v):\n%s", err, out)
	}
}
