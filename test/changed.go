package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// recentCommits is the number of latest commits that are searched for changes: a change of a package in one of them
// makes the long tests that depend on the package run.
const recentCommits = 60

// pinnedNode boots a real node whose agent pins containers, and claimedNode one whose CPUs come from claims.
const pinnedNode, claimedNode = "^TestPinnedNode$", "^TestCPUClaims$"

// gradedNodes boots two nodes of 20 CPUs and plays the conformance suite on them, which only go run ./test node does.
const gradedNodes = "^TestGradedNodes$"

// pinnedPackages are the packages whose changes make both run: the tests, and the program that their nodes run.
var pinnedPackages = []string{"./test/vm/realnode/trial", "./cmd/tenon-agent"}

// pinnedLatestStart is the latest time in a run at which these tests begin. If they began later, they would not end
// within the 90 minutes of continuous integration.
const pinnedLatestStart = 60 * time.Minute

// pinnedNodes runs pinnedNode and claimedNode if something that they depend on has changed lately. They take minutes,
// which is too long for every run. They run one after the other: a guest keeps one CPU busy, and what a busy computer
// delays ends their waits. If they have to run but the run was too slow, the last lines of the run report that too.
func (r *runner) pinnedNodes(ctx context.Context, args []string) error {
	why, err := mustRun(ctx, pinnedPackages)
	if err != nil {
		return fmt.Errorf("find out whether pinning on a real node has to run: %w", err)
	}
	if why == "" {
		r.say("pinning on a real node: left out, as nothing that it depends on has changed in %d commits "+
			"(go run ./test node runs it)", recentCommits)
		return nil
	}
	if time.Since(r.began) > pinnedLatestStart {
		r.reportLeftOut("pinning on a real node: this run has taken %s already, and %s: run go run ./test node",
			pinnedLatestStart, why)
		return nil
	}
	r.say("pinning on a real node: runs, because %s", why)
	return errors.Join(r.trial(ctx, claimedCPUs, append(slices.Clone(args), "-run", claimedNode)),
		r.trial(ctx, pinning, append(slices.Clone(args), "-run", pinnedNode)))
}

// mustRun returns why the tests of the packages have to run, or "". The reason is a change in the last commits or in
// uncommitted files that concerns a package or one of its dependencies. A history that is too short to decide is a
// reason, too.
func mustRun(ctx context.Context, packages []string) (why string, err error) {
	since := fmt.Sprintf("HEAD~%d", recentCommits)
	if exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", since+"^{commit}").Run() != nil {
		return fmt.Sprintf("there is no history of %d commits here", recentCommits), nil
	}
	diff, err := output(ctx, "git", "diff", "--name-only", since)
	if err != nil {
		return "", err
	}
	untracked, err := output(ctx, "git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	dirs, err := output(ctx, "go", append([]string{"list", "-test", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}"},
		packages...)...)
	if err != nil {
		return "", err
	}
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return reasonToRun(strings.Fields(diff+untracked), relativeFolders(root, strings.Fields(dirs))), nil
}

// output runs a program and returns what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return string(out), nil
}

// relativeFolders returns the folders below a root, relative to it and with slashes.
func relativeFolders(root string, dirs []string) map[string]bool {
	out := map[string]bool{}
	for _, dir := range dirs {
		if rel, err := filepath.Rel(root, dir); err == nil && filepath.IsLocal(rel) {
			out[filepath.ToSlash(rel)] = true
		}
	}
	return out
}

// reasonToRun returns the name of the first file, in alphabetical order, whose change matters, with the words "has
// changed"; "" if there is none. A Go file matters if its folder is one of folders. Another file also matters if a
// folder above it is one of them. Files such as go.mod and go.work at the root always matter. Documents and pictures
// do not matter.
func reasonToRun(files []string, folders map[string]bool) string {
	slices.Sort(files)
	for _, f := range files {
		switch path.Ext(f) {
		case ".md", ".svg", ".png":
			continue
		case ".mod", ".work":
			if !strings.Contains(f, "/") {
				return f + " has changed"
			}
		}
		for dir := path.Dir(f); dir != "."; dir = path.Dir(dir) {
			if folders[dir] {
				return f + " has changed"
			}
			if path.Ext(f) == ".go" {
				break // a folder with Go files is a package, which counts only if it is imported
			}
		}
	}
	return ""
}
