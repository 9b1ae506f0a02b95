package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
	if got := changed(before, after); !slices.Equal(got, want) {
		t.Errorf("changed files: %q, want %q", got, want)
	}
	if got := changed(after, after); len(got) > 0 {
		t.Errorf("changed files without a change: %q", got)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
