package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// headlamp checks the types of the plugin for Headlamp, and runs its tests. A computer without node, or that cannot get
// the plugin's libraries, cannot: that is reported, and nothing that is written in Go depends on it.
func (r *runner) headlamp(ctx context.Context) error {
	dir := filepath.Join("face", "headlamp")
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return r.notRun("the plugin for Headlamp: there is no %s here", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); errors.Is(err, fs.ErrNotExist) {
		line := []string{"npm", "--prefix", dir, "ci", "--ignore-scripts", "--no-audit", "--no-fund"}
		if err := r.program(ctx, io.Discard, "libraries of the plugin for Headlamp", line...); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return r.notRun("the plugin for Headlamp: its libraries cannot be had: %v", err)
		}
	}
	return errors.Join(
		r.program(ctx, io.Discard, "types of the plugin for Headlamp", "npm", "--prefix", dir, "run", "tsc"),
		r.program(ctx, io.Discard, "plugin for Headlamp", "npm", "--prefix", dir, "run", "test", "--", "--run"))
}
