package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// verify checks the files themselves: that generated files match their sources, and the rules in the tests of
// internal/house, such as formatting and the lengths of lines and files. It checks the subjects of commits, too.
func (r *runner) verify(ctx context.Context) error {
	return errors.Join(r.checkGenerated(ctx), r.checkOpenAPI(ctx), r.checkSubjects(ctx, firstChecked),
		r.step(ctx, "rules of the repository", "test", "-count=1", house))
}

// checkOpenAPI validates the OpenAPI document of the console. The validator is built from source, like the
// generators.
func (r *runner) checkOpenAPI(ctx context.Context) error {
	return r.program(ctx, io.Discard, "OpenAPI document of the console", filepath.Join("tools", "run"), "validate",
		filepath.Join("face", "console", "openapi.json"))
}

// lint runs the linters of .golangci.yaml on every module of the workspace. If the linters cannot be built here, for
// example without access to their source, that is reported as NOT RUN, which is an error only if CI is set.
func (r *runner) lint(ctx context.Context) error {
	modules, err := modules(ctx)
	if err != nil {
		return err
	}
	build := []string{"env", "GOWORK=off", "go", "-C", filepath.Join("tools", "lint"), "tool", "-n", "golangci-lint"}
	if err := r.program(ctx, io.Discard, "build of the linters", build...); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return r.reportNotRun("the linters: golangci-lint cannot be built here: %v", err)
	}
	line := []string{filepath.Join("tools", "run"), "golangci-lint", "run"}
	for _, dir := range modules {
		line = append(line, dir+"/...")
	}
	return r.program(ctx, io.Discard, "lint", line...)
}

// generatedFolders are the folders that go generate writes to, from the root.
var generatedFolders = []string{"api", filepath.Join("deploy", "crd")}

// checkGenerated runs go generate, and fails if that changes a file. The changed files stay, so a second run passes.
func (r *runner) checkGenerated(ctx context.Context) error {
	const name = "generated files"
	before, err := contents(generatedFolders)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := r.step(ctx, name, "generate", "./api/..."); err != nil {
		return err
	}
	after, err := contents(generatedFolders)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if stale := differingFiles(before, after); len(stale) > 0 {
		r.withdraw(name)
		return fmt.Errorf("%s: these were not current, and are now: %s", name, strings.Join(stale, ", "))
	}
	return nil
}

// contents reads every file below some folders.
func contents(dirs []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			out[name], err = os.ReadFile(name)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// differingFiles returns, in ascending order, the names of the files that differ between a and b or that one of them
// lacks.
func differingFiles(a, b map[string][]byte) (names []string) {
	for name, data := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(data, other) {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
