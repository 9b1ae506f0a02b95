// Package console measures the console in a real browser, on a cluster of any number of nodes.
//
// Invariant: the console is the program that people start, and the page is what that program serves. The cluster is
// one of test/bench/synthetic, behind a server that only lists it and sends changes. The package refuses to work
// without chromium.
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
	// Usable is the time from the start of the navigation until the page shows its numbers and has painted the map.
	Usable time.Duration
	// Transferred is the size of all responses until then, in bytes, compressed as they were sent.
	Transferred int64
	// Changes is the number of changes that were sent per second. While they were sent, Longest was the longest task of
	// the page (0 if none took 50 ms), and Appears the time from the event of a new pod until the page showed the pod.
	Changes          int
	Longest, Appears time.Duration
	// Fitting, Explaining and Examining are the response times of /fitting, of one pod's page, and of /doctor. Loaded
	// is the server's resident memory in bytes after the first page, and Most its maximum in the whole run.
	Fitting, Explaining, Examining time.Duration
	Loaded, Most                   int64
}

// Measure makes a cluster of this many nodes, starts the console and a browser, and measures.
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
	defer func() { err = errors.Join(err, s.stop()) }()
	b, err := open(ctx, s.address)
	if err != nil {
		return found, err
	}
	defer b.close()
	found.Nodes, found.Pods = len(c.Nodes), len(c.Pods)
	if err := b.loadFirstPage(&found); err != nil {
		return found, err
	}
	if found.Loaded, err = s.memory("VmRSS"); err != nil {
		return found, err
	}
	pod := c.Pods[0]
	if found.Fitting, err = b.timeAnswer("/fitting"); err != nil {
		return found, err
	}
	if found.Explaining, err = b.timeAnswer("/pods/" + pod.Namespace + "/" + pod.Name); err != nil {
		return found, err
	}
	if found.Examining, err = b.timeAnswer("/doctor"); err != nil {
		return found, err
	}
	if err := b.measureChanges(ctx, &found, api, c); err != nil {
		return found, err
	}
	found.Most, err = s.memory("VmHWM")
	return found, err
}

// build builds the kubectl plugin in dir, and returns the path of the program.
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
