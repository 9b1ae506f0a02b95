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

// library tests the plugin inside sigs.k8s.io/scheduler-library. The test's module is not part of the workspace,
// because the library does not build with the workspace's release of Kubernetes.
func (r *runner) library(ctx context.Context, args []string) error {
	tags, err := exec.CommandContext(ctx, filepath.Join("tools", "kubernetes", "tags"), libraryRelease).Output()
	if err != nil {
		return fmt.Errorf("build tags of Kubernetes %s: %w", libraryRelease, err)
	}
	line := []string{"env", "GOWORK=off", "CGO_ENABLED=0", "go", "-C", filepath.Join("test", "library"), "test",
		"-tags", strings.TrimSpace(string(tags)), "-timeout", "20m", "./..."}
	return r.program(ctx, io.Discard, "plugin in scheduler-library", append(line, args...)...)
}
