// Command mutate tests the tests: it puts faults into core/place, one at a time, and checks that a test detects each
// of them. Most faults must be detected by the short differential test, which compares core/place with the kubelet's
// managers, on random machines and then on the scenario files. For a fault in a rule of some releases, that test uses
// the managers of such a release, whose first build takes some minutes. A few subtle faults must be detected by the
// tests of core/place.
//
//	go run ./test/mutate [NAME...]    all faults, or those whose names contain one of NAME
//
// Invariant: the module's files are never changed; a fault is an overlay of the build. The command refuses a fault
// whose text is not found exactly once, or that does not build, and fails if a fault is not detected.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-numa/tenon/core/place"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	var chosen []judgedFault
	for _, f := range allFaults() {
		if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.Contains(f.name, n) }) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no fault is named %s", strings.Join(names, ", "))
	}
	for _, f := range chosen { // before the first build: all patches must apply
		if _, err := f.apply(); err != nil {
			return err
		}
	}
	var errs []error
	for i, f := range chosen {
		fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, len(chosen), f.name)
		began := time.Now()
		how, err := f.judge(ctx, dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
			how = "NOT CAUGHT"
		}
		fmt.Printf("%-66s %4.0fs  %s\n", f.name, time.Since(began).Seconds(), how)
	}
	return errors.Join(errs...)
}

// fault is one mistake: a text of a file and its replacement.
type fault struct{ name, file, old, replacement string }

// judgedFault is a fault with the checks that judge it; at least one of them must detect it.
type judgedFault struct {
	fault
	checks []check
}

// allFaults returns every fault.
func allFaults() (out []judgedFault) {
	for _, f := range faults() {
		out = append(out, judgedFault{f, differentialTests()})
	}
	out = append(out, releaseFaults()...)
	for _, f := range subtleFaults() {
		out = append(out, judgedFault{f, placeTests()})
	}
	return out
}

// apply returns the file with the fault in it.
func (f fault) apply() (string, error) {
	text, err := os.ReadFile(f.file)
	if err != nil {
		return "", fmt.Errorf("fault %q: %w", f.name, err)
	}
	if n := strings.Count(string(text), f.old); n != 1 {
		return "", fmt.Errorf("fault %q: %s has its text %d times, want once: %q", f.name, f.file, n, f.old)
	}
	return strings.Replace(string(text), f.old, f.replacement, 1), nil
}

// judge runs the checks against the fault until one fails, and returns what that one found. It returns an error if
// the fault does not build, or if no check detects it.
func (p judgedFault) judge(ctx context.Context, dir string) (how string, err error) {
	text, err := p.apply()
	if err != nil {
		return "", err
	}
	mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(mutant, []byte(text), 0o644); err != nil {
		return "", err
	}
	original, err := filepath.Abs(p.file)
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutant}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, list, 0o644); err != nil {
		return "", err
	}
	for _, c := range p.checks {
		args := slices.Concat([]string{"test", "-vet=off", "-count=1", "-overlay", overlay, c.pkg, "-run", c.test},
			c.flags)
		cmd := exec.CommandContext(ctx, "go", args...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			continue
		}
		m := c.pattern.FindStringSubmatch(string(out))
		if m == nil {
			return "", fmt.Errorf("no difference, but: %w\n%s", err, out)
		}
		return shorten(c.prefix + m[1]), nil
	}
	return "", errors.New("the tests pass")
}

// check is a test of a package that must fail with a fault, and what its output must then contain.
type check struct {
	pkg     string
	test    string         // pattern of its tests, as for go test -run
	prefix  string         // begins the printed result
	pattern *regexp.Regexp // matches the output of a test that detects the fault; the first group is printed
	// flags of the test.
	flags []string
}

// placeTests returns the tests of core/place.
func placeTests() []check {
	return []check{{"./core/place", ".", "", regexp.MustCompile(`(?m)^--- FAIL: (\w+)`), nil}}
}

// differentialTests returns the differential test on random machines, and then the one on scenario files, both with
// the managers of the default release.
func differentialTests() []check {
	by := []string{"-diff.release", place.DefaultRelease.String()}
	return []check{
		{"./lab/kubelet", "TestPlaceAgreesWithTheManagers", "", regexp.MustCompile(`(?m)^.*?(seed \d+: [a-z].*)$`), by},
		{"./lab/kubelet", "TestScenarioFilesAreWhatTheManagersDo", "scenario ",
			regexp.MustCompile(`(?m)^ +--- FAIL: TestScenarioFiles\w*/([\w.]+/\w+)`), by},
	}
}

func shorten(s string) string {
	const maxLen = 90
	if len(s) > maxLen {
		return s[:maxLen] + "..."
	}
	return s
}
