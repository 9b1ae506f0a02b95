package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestSubjectsOfCommits(t *testing.T) {
	for subject, right := range map[string]bool{
		"face/draw: wrap table cells that are too wide": true,
		"use: the node's error is not lost; try again":  true,
		"doctor, house: one way to read briskly":        true,
		"Bump the kubernetes group":                     true,
		`Revert "docs: comments that read once"`:        true,
		"house: " + strings.Repeat("é", 65):             true,
		"house: " + strings.Repeat("x", 66):             false,
		"docs: comments that read once.":                false,
		"wrap table cells":                              false,
		"fixup! cli: say what is assumed":               false,
		"draw:wrap table cells":                         false,
		"":                                              false,
	} {
		if what := subjectFault(subject); (what == "") != right {
			t.Errorf("%q: %q is amiss, want nothing: %t", subject, what, right)
		}
	}
}

// A release's source archive has no history, and a shallow clone too little: that is reported, and fails in continuous
// integration.
func TestSubjectsAreCheckedSinceTheRules(t *testing.T) {
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	commit := func(subject string) string {
		git(t, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", subject)
		return git(t, "rev-parse", "HEAD")
	}
	check := func(since string) (*runner, error) {
		var out bytes.Buffer
		r := &runner{out: &out, began: time.Now()}
		return r, r.checkSubjects(t.Context(), since)
	}
	t.Chdir(t.TempDir())
	for _, ci := range []string{"", "1"} {
		t.Setenv("CI", ci)
		if r, err := check("abc"); (err != nil) != (ci != "") || len(r.untested) != 1 {
			t.Errorf("CI=%q, no history: error %v, not run %q", ci, err, r.untested)
		}
	}
	git(t, "init", "-q")
	first := commit("an old subject.")
	if r, err := check(first); err != nil || len(r.done) != 1 {
		t.Errorf("no commit: error %v, done %q", err, r.done)
	}
	commit("draw: wrap cells")
	if _, err := check(first); err != nil {
		t.Error(err)
	}
	commit("wrap more cells")
	if _, err := check(first); err == nil || !strings.Contains(err.Error(), `"wrap more cells"`) {
		t.Errorf("error %v, want the subject", err)
	}
	if r, err := check(strings.Repeat("1", 40)); err == nil || len(r.untested) != 1 {
		t.Errorf("an unknown commit: error %v, not run %q", err, r.untested)
	}
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
