package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryChangedFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"kept": "1", "edited": "2", "removed": "3"} {
		write(t, dir, name, text)
	}
	before, err := contents([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "edited", "other")
	write(t, dir, "added", "4")
	if err := os.Remove(filepath.Join(dir, "removed")); err != nil {
		t.Fatal(err)
	}
	after, err := contents([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "added"), filepath.Join(dir, "edited"), filepath.Join(dir, "removed")}
	if got := differingFiles(before, after); !slices.Equal(got, want) {
		t.Errorf("changed files: %q, want %q", got, want)
	}
	if got := differingFiles(after, after); len(got) > 0 {
		t.Errorf("changed files without a change: %q", got)
	}
}

// A computer without access to the module proxy must not count as one whose code was linted.
func TestLintersThatCannotBeBuiltAreReported(t *testing.T) {
	t.Chdir("..")
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "")
	for _, c := range []struct {
		ci   string
		fail bool
	}{{"", false}, {"1", true}} {
		t.Setenv("CI", c.ci)
		t.Setenv("GOMODCACHE", t.TempDir())
		var out bytes.Buffer
		r := &runner{out: &out, began: time.Now()}
		if err := r.lint(t.Context()); (err != nil) != c.fail {
			t.Errorf("CI=%q: error %v, want one: %v", c.ci, err, c.fail)
		}
		if len(r.untested) != 1 || !strings.Contains(out.String(), "NOT RUN: the linters") || len(r.done) > 0 {
			t.Errorf("CI=%q: done %q, not run %q, output:\n%s", c.ci, r.done, r.untested, out.String())
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
