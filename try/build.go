package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// build is a program to build.
type build struct {
	dir     string   // of the module
	pattern string   // the package, such as ./cmd/tenon-lab
	file    string   // the program's file
	env     []string // further variables of the go command
	show    *display
}

// run builds the program if its file is not current, in two steps: it finds out what is to be compiled, for which the
// go command downloads modules, and compiles that. It prints nothing if there is nothing to do.
func (b build) run(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(b.file), 0o755); err != nil {
		return fmt.Errorf("make the folder of the program: %w", err)
	}
	stale, err := b.stale(ctx)
	if err != nil {
		return err
	}
	compiled := 0
	err = b.show.watch(b.command(ctx, "build", "-v", "-o", b.file, b.pattern), func(line string) (string, bool) {
		if !isPackage(line) {
			return "", false
		}
		compiled++
		if compiled >= stale || strings.HasSuffix(line, "/"+strings.TrimPrefix(b.pattern, "./")) {
			return "linking " + filepath.Base(b.file), true
		}
		return fmt.Sprintf("compiling package %d of %d: %s", compiled, stale, line), true
	})
	if err != nil {
		return fmt.Errorf("build %s: %w", filepath.Base(b.file), err)
	}
	return nil
}

// stale returns how many packages are not in Go's cache.
func (b build) stale(ctx context.Context) (int, error) {
	list := b.command(ctx, "list", "-deps", "-f", "{{if .Stale}}.{{end}}", b.pattern)
	var out strings.Builder
	list.Stdout = &out
	modules := 0
	err := b.show.watch(list, func(line string) (string, bool) {
		name, ok := strings.CutPrefix(line, "go: downloading ")
		if !ok {
			return "", false
		}
		modules++
		return fmt.Sprintf("downloading module %d: %s", modules, name), true
	})
	if err != nil {
		return 0, fmt.Errorf("download modules: %w", err)
	}
	return strings.Count(out.String(), "."), nil
}

// command returns a go command in the module.
func (b build) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), b.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// isPackage reports whether a line of "go build -v" is the name of a package that is being compiled. Other lines are
// about errors.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#")
}

// availableMemory returns MemAvailable of /proc/meminfo in bytes.
func availableMemory(meminfo string) (bytes int64, ok bool) {
	for line := range strings.Lines(meminfo) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "MemAvailable:" || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 52)
		return kib << 10, err == nil && kib >= 0
	}
	return 0, false
}
