package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// operatorPrograms is the folder of the module that pins the operators whose gangs are tested, below the root.
var operatorPrograms = filepath.Join("lab", "operators", "programs")

// fewStale is how many packages of the operators' programs the go command may have to build for the test to be part of
// every run: the programs themselves are always built anew.
const fewStale = 8

// operators tests gangs of Kueue, JobSet and LeaderWorkerSet. It builds these programs first, one at a time, so that
// the run prints what takes so long.
func (r *runner) operators(ctx context.Context, args []string) error {
	tools, err := operatorGo(ctx, nil, "list", "tool")
	if err != nil {
		return err
	}
	for _, tool := range strings.Fields(tools) {
		line := []string{"env", "GOWORK=off", "CGO_ENABLED=0", "go", "-C", operatorPrograms, "tool", "-n", tool}
		if err := r.program(ctx, io.Discard, "program "+tool, line...); err != nil {
			return err
		}
	}
	return r.trial(ctx, operators, args)
}

// builtOperators tests the gangs of operators if their programs are built. The first build takes some seven minutes on
// two cores, which is too long for every run.
func (r *runner) builtOperators(ctx context.Context, args []string) error {
	// With this, the go command fetches no modules.
	stale, err := operatorGo(ctx, []string{"GOPROXY=off"}, "list", "-deps", "-f", "{{if .Stale}}x{{end}}", "tool")
	if n := len(strings.Fields(stale)); err != nil || n > fewStale {
		r.reportLeftOut("%s: the operators' programs are not built here, which takes some seven minutes: "+
			"run go run ./test operators", operators)
		return nil
	}
	return r.operators(ctx, args)
}

// operatorGo runs a go command in the module of operatorPrograms, with more variables of the environment, and returns
// its output.
func operatorGo(ctx context.Context, env []string, args ...string) (string, error) {
	line := append([]string{"-C", operatorPrograms}, args...)
	cmd := exec.CommandContext(ctx, "go", line...)
	cmd.Env = slices.Concat(cmd.Environ(), []string{"GOWORK=off", "CGO_ENABLED=0"}, env)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("operators' programs: go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
