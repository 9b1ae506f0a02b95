package page_test

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/tools/release/page"
)

const changelog = `# Changelog

## Unreleased

- to come

## [0.2.0] - 2026-12-01

### Added

- a chart

## 0.1.0 - 2026-09-01

- first
`

func TestNotes(t *testing.T) {
	for version, want := range map[string]string{"0.2.0": "### Added\n\n- a chart\n", "0.1.0": "- first\n"} {
		if got, err := page.Notes(changelog, version, false); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", version, got, err, want)
		}
	}
	if got, err := page.Notes(changelog, "0.3.0", false); err == nil || !strings.Contains(err.Error(), "0.3.0") {
		t.Errorf("a version without a part: %q, %v", got, err)
	}
	if got, err := page.Notes(changelog, "0.3.0", true); err != nil || got != "- to come\n" {
		t.Errorf("a trial: %q, %v", got, err)
	}
	if got, err := page.Notes(changelog, "0.1.0", true); err != nil || got != "- first\n" {
		t.Errorf("a trial of a version that the changelog has: %q, %v", got, err)
	}
}

// TestKrew: the manifest has what krew requires: a version with a v, and for each platform a sum and a program.
func TestKrew(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	got, err := page.Krew("0.2.0", "https://example.com/v0.2.0", []page.Archive{
		{OS: "linux", Arch: "amd64", Name: "a.tar.gz", SHA256: sum}, {OS: "windows", Arch: "arm64", Name: "b.zip", SHA256: sum}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name: tenon\n", "version: v0.2.0\n", "uri: https://example.com/v0.2.0/b.zip\n",
		"bin: kubectl-tenon.exe\n", "bin: kubectl-tenon\n", "sha256: " + sum, "os: windows\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
