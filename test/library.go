package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// libraryRelease is the release of Kubernetes that sigs.k8s.io/scheduler-library is made for.
const libraryRelease = "1.36"

// manyStale is how many packages of the test the go command may have to build for it to be part of every run: about as
// many as this repository has in it. Kubernetes has many more.
const manyStale = 150

// library tests the plugin inside sigs.k8s.io/scheduler-library. The test's module is not part of the workspace,
// because the library does not build with the workspace's release of Kubernetes.
func (r *runner) library(ctx context.Context, args []string) error {
	line, err := libraryGo(ctx, "test", "-timeout", "20m")
	if err != nil {
		return err
	}
	return r.program(ctx, io.Discard, "plugin in scheduler-library", append(append(line, "./..."), args...)...)
}

// builtLibrary is library if most of the test is built. The first build takes some four minutes on two cores, which is
// too long for every run.
func (r *runner) builtLibrary(ctx context.Context, args []string) error {
	line, err := libraryGo(ctx, "list", "-deps", "-test", "-f", "{{if .Stale}}x{{end}}")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, line[0], append(line[1:], "./...")...)
	cmd.Env = append(cmd.Environ(), "GOPROXY=off") // the go command then fetches no modules
	if stale, err := cmd.Output(); err != nil || len(strings.Fields(string(stale))) > manyStale {
		r.reportLeftOut("plugin in scheduler-library: the library and its release of Kubernetes are not built here, " +
			"which takes some four minutes: run go run ./test library")
		return nil
	}
	return r.library(ctx, args)
}

// libraryGo returns a go command in the test's module.
func libraryGo(ctx context.Context, command string, args ...string) ([]string, error) {
	tags, err := exec.CommandContext(ctx, filepath.Join("tools", "kubernetes", "tags"), libraryRelease).Output()
	if err != nil {
		return nil, fmt.Errorf("build tags of Kubernetes %s: %w", libraryRelease, err)
	}
	return append([]string{"env", "GOWORK=off", "CGO_ENABLED=0", "go", "-C", filepath.Join("test", "library"), command,
		"-tags", strings.TrimSpace(string(tags))}, args...), nil
}
