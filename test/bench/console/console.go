// Package console measures the console in a real browser, on a cluster that is as large as Kubernetes supports.
//
// Invariant: the console is the program that people start, and the page is what it serves; the cluster is one of
// test/bench/synthetic behind a server that only lists it and sends changes. The package refuses to work without
// chromium.
package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tenon-numa/tenon/test/bench/programs"
	"github.com/tenon-numa/tenon/test/bench/staticapi"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// Found is what was measured.
type Found struct {
	Nodes, Pods int
	// Usable is the time from the click on the address until the map is painted and the numbers are there.
	Usable time.Duration
	// Transferred are the bytes of all answers until then, as they were sent.
	Transferred int64
	// Changes is the number of changes that were sent per second. Meanwhile, Longest was the longest task of the page,
	// and Appears the time from the event of a new pod until the page showed it.
	Changes          int
	Longest, Appears time.Duration
	// Fitting, Explaining and Examining are the times of the answers for /fitting, one pod, and /doctor. Loaded is the
	// server's resident memory when it has read the cluster, and Most the maximum.
	Fitting, Explaining, Examining time.Duration
	Loaded, Most                   int64
}

// Measure makes the cluster, starts the console and a browser, and measures.
func Measure(ctx context.Context, nodes int) (found Found, err error) {
	c, err := synthetic.Make(synthetic.Size{Nodes: nodes, Full: 65}, 1)
	if err != nil {
		return found, err
	}
	api, err := staticapi.Serve(c)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, api.Close()) }()
	dir, err := os.MkdirTemp("", "tenon-pages-")
	if err != nil {
		return found, fmt.Errorf("make a folder for the console: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := start(ctx, dir, api.URL())
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	b, err := open(ctx, s.address)
	if err != nil {
		return found, err
	}
	defer b.close()
	found.Nodes, found.Pods = len(c.Nodes), len(c.Pods)
	if err := b.first(&found); err != nil {
		return found, err
	}
	if found.Loaded, err = s.memory("VmRSS"); err != nil {
		return found, err
	}
	pod := c.Pods[0]
	if found.Fitting, err = b.answer("/fitting"); err != nil {
		return found, err
	}
	if found.Explaining, err = b.answer("/pods/" + pod.Namespace + "/" + pod.Name); err != nil {
		return found, err
	}
	if found.Examining, err = b.answer("/doctor"); err != nil {
		return found, err
	}
	if err := b.changes(ctx, &found, api, c); err != nil {
		return found, err
	}
	found.Most, err = s.memory("VmHWM")
	return found, err
}

// build builds the kubectl plugin.
func build(ctx context.Context, dir string) (string, error) {
	root, err := programs.Checkout(ctx)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "kubectl-tenon")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, "./cmd/kubectl-tenon")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the console: %w\n%s", err, out)
	}
	return to, nil
}
