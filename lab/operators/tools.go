package operators

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tenon-numa/tenon/lab/releases"
)

// kustomize is the package of the program that makes one manifest of the files in a module's folder config.
const kustomize = "sigs.k8s.io/kustomize/kustomize/v5"

// tools runs go commands in the module that pins the operators. The go command keeps the programs in its cache.
type tools struct {
	dir string
	say func(line string)
}

func newTools(say func(line string)) (*tools, error) {
	root, err := releases.Checkout()
	if err != nil {
		return nil, fmt.Errorf("find the module of programs: %w", err)
	}
	return &tools{filepath.Join(root, "lab", "operators", "programs"), say}, nil
}

// build builds a program of the module, unless it is in the cache of the go command, and returns its path.
func (t *tools) build(ctx context.Context, tool string) (path string, err error) {
	stale, err := t.golang(ctx, "list", "-deps", "-f", "{{if .Stale}}x{{end}}", tool)
	if err != nil {
		return "", err
	}
	if n := len(strings.Fields(stale)); n > 1 { // the program itself is always stale
		t.say(fmt.Sprintf("building %s: %d packages (the first time some minutes)", tool, n))
	}
	return t.golang(ctx, "tool", "-n", tool)
}

// manifest returns the manifest that a module has for its program.
func (t *tools) manifest(ctx context.Context, module string) ([]byte, error) {
	program, err := t.build(ctx, kustomize)
	if err != nil {
		return nil, err
	}
	dir, err := t.golang(ctx, "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, fmt.Errorf("find the files of module %s: it is not in the module cache", module)
	}
	return output(exec.CommandContext(ctx, program, "build", filepath.Join(dir, "config", "default")))
}

// golang runs a go command, and returns what it prints.
func (t *tools) golang(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = t.dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	out, err := output(cmd)
	return strings.TrimSpace(string(out)), err
}

// output runs a command and returns its output. An error has what the command wrote to its standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), errors.Join(err, errors.New(stderr.String())))
	}
	return out, nil
}
