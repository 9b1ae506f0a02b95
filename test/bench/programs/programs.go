// Package programs builds the schedulers that are compared, each as a separate program.
//
// Invariant: they are built from this checkout, with the versions in go.mod files; nothing else is downloaded. The
// package needs a checkout and a go command.
package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The minor versions of Kubernetes that the programs are built with.
const (
	Minor     = "1.37"
	PeerMinor = "1.34" // the newest that the peer supports
)

// Contender builds, in dir, the program that benchmarks drive: kube-scheduler, with Tenon or without. It returns the
// program's path.
func Contender(ctx context.Context, dir string) (string, error) {
	root, err := Checkout(ctx)
	if err != nil {
		return "", err
	}
	return build(ctx, root, nil, "./test/bench/contender", filepath.Join(dir, "contender"))
}

// Peer builds, in dir, kube-scheduler with NodeResourceTopologyMatch. Its first argument is "kube-scheduler", to run
// one, or "driven", to be driven step by step. Its module cannot import the packages that it shares with the
// contender, because these belong to another version of Kubernetes; so the build overlays their files. Peer returns
// the program's path.
func Peer(ctx context.Context, dir string) (string, error) {
	root, err := Checkout(ctx)
	if err != nil {
		return "", err
	}
	bench := filepath.Join(root, "test", "bench")
	peer := filepath.Join(bench, "peer")
	over := map[string]map[string]string{"Replace": {}}
	for _, file := range []string{"cycle/cycle.go", "wire/wire.go"} {
		over["Replace"][filepath.Join(peer, file)] = filepath.Join(bench, file)
	}
	data, err := json.Marshal(over)
	if err != nil {
		return "", fmt.Errorf("build peer: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		return "", fmt.Errorf("build peer: %w", err)
	}
	return build(ctx, peer, []string{"GOWORK=off"}, ".", filepath.Join(dir, "peer"), "-overlay", overlay)
}

// Checkout returns the root of the workspace that the go command runs in.
func Checkout(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout: go env GOWORK: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == "off" {
		return "", errors.New("find the checkout: no go.work here or above")
	}
	return filepath.Dir(file), nil
}

// build builds a package of the module in dir, and returns the path of the program, which is the given one. The
// build's environment is this process's environment and env.
func build(ctx context.Context, dir string, env []string, pkg, to string, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", to}, flags...), pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s in %s: %w\n%s", pkg, dir, err, out)
	}
	return to, nil
}
