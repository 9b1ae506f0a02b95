package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// reportOptional reports, at once and at the end, that something is not tested. Unlike reportNotRun, it never makes a
// run fail: the project's programs work without the part that is not tested.
func (r *runner) reportOptional(format string, args ...any) {
	text := fmt.Sprintf("NOT RUN: "+format, args...)
	r.say("%s", text)
	r.leftOut(text)
}

// headlamp checks the types of the plugin for Headlamp, and runs its tests. A computer without node, or without access
// to the plugin's libraries, cannot do so: that is reported, and nothing that is written in Go depends on it.
func (r *runner) headlamp(ctx context.Context) error {
	dir := filepath.Join("guests", "headlamp")
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			r.reportOptional("the plugin for Headlamp: there is no %s here", name)
			return nil
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); errors.Is(err, fs.ErrNotExist) {
		line := []string{"npm", "--prefix", dir, "install", "--ignore-scripts", "--no-audit", "--no-fund"}
		if err := r.program(ctx, io.Discard, "libraries of the plugin for Headlamp", line...); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.reportOptional("the plugin for Headlamp: its libraries cannot be had: %v", err)
			return nil
		}
	}
	return errors.Join(
		r.program(ctx, io.Discard, "types of the plugin for Headlamp", "npm", "--prefix", dir, "run", "tsc"),
		r.program(ctx, io.Discard, "plugin for Headlamp", "npm", "--prefix", dir, "run", "test", "--", "--run"))
}
