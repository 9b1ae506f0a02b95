package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// descheduler builds the descheduler with the plugin, tests the packages of that module, which is not part of the
// workspace, and has the program make room in lab clusters. The results are never taken from the cache, because the go
// command does not know the program.
func (r *runner) descheduler(ctx context.Context, args []string) error {
	home, err := os.MkdirTemp("", "tenon-descheduler-")
	if err != nil {
		return fmt.Errorf("plugin for the descheduler: %w", err)
	}
	defer os.RemoveAll(home)
	program := filepath.Join(home, "tenon-descheduler")
	line := []string{"env", "GOWORK=off", "CGO_ENABLED=0", "go", "-C", "descheduler"}
	err = errors.Join(
		r.program(ctx, io.Discard, "program for the descheduler",
			append(line, "build", "-ldflags=-s -w", "-o", program, "./cmd/tenon-descheduler")...),
		r.program(ctx, io.Discard, "plugin for the descheduler",
			slices.Concat(line, []string{"test", "-count=1", "./..."}, args)...))
	if err != nil {
		return err
	}
	return r.step(ctx, "descheduler on lab clusters", "test", "-count=1", "-timeout", "20m", "-run", "^TestTheDescheduler",
		"./lab/queue", "-args", "-descheduler", program)
}
