// Command try builds tenon-lab with visible progress, and then runs it with the same arguments. Without arguments it
// runs the demonstration. The first build downloads and compiles Kubernetes, and "go run" prints nothing meanwhile.
//
//	go run ./try
//	go run ./try up --nodes xeon-2s
//
// Invariant: it changes nothing but Go's caches and the file bin/tenon-lab. It imports the standard library only, so
// that it runs within seconds on a computer that has nothing but Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

// usage is what -h prints. The amounts were measured on two cores on 2026-11-28, with empty caches.
const usage = `usage: go run ./try [COMMAND] [ARGS...]

Builds tenon-lab into bin, and runs it: the demonstration, or COMMAND ("go run ./try help" lists the commands).
` + needs

const needs = `
The first build needs
  Linux, Go 1.26 or newer, and a connection to a Go module proxy
  100 MB of downloads
  3 GB of disk in Go's caches, and 0.3 GB for the program
  4 GB of memory
  6 to 13 minutes on two cores
Later runs start at once. "go clean -cache -modcache" frees the disk again.
`

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"demo"}
	}
	if slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
		fmt.Print(usage)
		return
	}
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1)
	}
}

// run builds tenon-lab and becomes it. It returns only with an error.
func run(args []string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("run the lab on %s: it needs Linux, for example in a virtual machine or a container", runtime.GOOS)
	}
	root, err := checkout(os.Getwd)
	if err != nil {
		return err
	}
	program := filepath.Join(root, "bin", "tenon-lab")
	if _, err := os.Stat(program); err != nil {
		fmt.Fprint(os.Stderr, needs+"\n")
		warnOfMemory(os.Stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = build{dir: root, pattern: "./cmd/tenon-lab", file: program, show: newDisplay(os.Stderr)}.run(ctx)
	interrupted := ctx.Err() != nil
	stop()
	if interrupted {
		return errors.New("interrupted; what is compiled stays in Go's cache, and the next run goes on from there")
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", program, syscall.Exec(program, append([]string{program}, args...), os.Environ()))
}

// checkout returns the root of the checkout of this repository that has the working directory.
func checkout(getwd func() (string, error)) (string, error) {
	dir, err := getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "tenon-lab", "main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find the checkout: run this command in a checkout of Tenon's repository")
		}
	}
}

// linkerMemory is what the linker takes for tenon-lab.
const linkerMemory = 3_600_000_000

// warnOfMemory prints a warning if less memory is available than the linker takes: the kernel then kills it, and the go
// command does not say why.
func warnOfMemory(out io.Writer) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return // the build reports its own errors
	}
	if have, ok := availableMemory(string(data)); ok && have < linkerMemory {
		fmt.Fprintf(out, "Only %.1f GB of memory are available, and the linker takes %.1f GB. If the build ends with "+
			"\"signal: killed\", end other programs and try again.\n\n", float64(have)/1e9, float64(linkerMemory)/1e9)
	}
}
