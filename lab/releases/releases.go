// Package releases builds programs of the repository for other releases of Kubernetes: the same source with the
// modules of a file in tools/kubernetes. For example, the program tenon-lab that is built for 1.35 runs the control
// plane, the scheduler and the kubelets of 1.35.
//
// Invariant: a program that the package builds reports the requested release. The package refuses releases without a
// file of modules, and needs Go and a checkout of the repository.
package releases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenon-numa/tenon/core/place"
)

// Own returns the release of Kubernetes that this program is built with, such as "1.37", or "" if its version has no
// release.
func Own() string {
	r, ok := place.ReleaseOf(Version())
	if !ok {
		return ""
	}
	return r.String()
}

// Programs builds cmd/tenon-lab for each wanted release, and returns the files by release; see Build. It skips "" and
// the release of this program, which needs no other file.
func Programs(ctx context.Context, progress func(line string), wanted ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, r := range slices.Compact(slices.Sorted(slices.Values(wanted))) {
		if r == "" || r == Own() {
			continue
		}
		file, err := Build(ctx, r, "tenon-lab", progress)
		if err != nil {
			return nil, err
		}
		out[r] = file
	}
	return out, nil
}

// Build builds a program below cmd for a release, into the user's cache, and returns its file. The first build of a
// release takes some minutes. progress receives a line when the build begins.
func Build(ctx context.Context, r, name string, progress func(line string)) (string, error) {
	file, err := build(ctx, r, name, progress)
	if err != nil {
		return "", fmt.Errorf("build %s for Kubernetes %s: %w", name, r, err)
	}
	return file, nil
}

func build(ctx context.Context, r, name string, progress func(line string)) (string, error) {
	if _, ok := place.ParseRelease(r); !ok {
		return "", fmt.Errorf("%q is not a release such as %s", r, place.DefaultRelease)
	}
	root, err := Checkout()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, "tools", "kubernetes")
	if _, err := os.Stat(filepath.Join(folder, r+".mod")); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("programs are built for %s", strings.Join(buildable(folder), ", "))
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(cache, "tenon-lab", r, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	progress("building " + name + " for Kubernetes " + r + " (the first time some minutes)")
	cmd := exec.CommandContext(ctx, filepath.Join(folder, "build"), r, file, "./cmd/"+name)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	return file, nil
}

// buildable returns the releases that programs can be built for: releases with a file of modules, and this program's
// own.
func buildable(folder string) []string {
	files, err := filepath.Glob(filepath.Join(folder, "1.*.mod"))
	if err != nil {
		return nil
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(f), ".mod"))
	}
	return append(out, Own())
}
