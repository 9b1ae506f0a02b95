// Command effort compares the cost of the core's answers with a recorded baseline: the statements that they execute,
// and their allocations. Both depend only on the code, not on the computer.
//
//	go run ./test/effort          compares with core/testdata/baseline.txt
//	go run ./test/effort -renew   records a new baseline
//
// Invariant: it fails if an answer allocates more often than in the baseline, or executes more than twice as many
// statements; it ignores wall time. It refuses a baseline that lacks an answer, or has one that is no longer
// measured.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// packages have a benchmark Effort. Each of its cases is one answer of the core, such as a verdict on one pod.
var packages = [...]string{"core/place", "core/ledger"}

const baseline = "core/testdata/baseline.txt"

func main() {
	renew := flag.Bool("renew", false, "write "+baseline+" anew")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *renew)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "effort:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, renew bool) (err error) {
	dir, err := os.MkdirTemp("", "tenon-effort-")
	if err != nil {
		return fmt.Errorf("count effort: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var text bytes.Buffer
	for _, pkg := range packages {
		if err := measure(ctx, &text, pkg, dir); err != nil {
			return fmt.Errorf("count effort of %s: %w", pkg, err)
		}
	}
	if renew {
		if err := os.WriteFile(baseline, text.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write baseline: %w", err)
		}
		return nil
	}
	before, err := os.ReadFile(baseline)
	if err != nil {
		return fmt.Errorf("read baseline: %w", err)
	}
	now := filepath.Join(dir, "now.txt")
	if err := os.WriteFile(now, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("count effort: %w", err)
	}
	if err := printComparison(ctx, now); err != nil {
		fmt.Fprintf(os.Stderr, "effort: benchstat cannot be had (%v); this is what was counted:\n%s", err, text.String())
	}
	return compare(string(before), text.String())
}

// printComparison prints benchstat's table. The tool is a separate module, so that its versions affect no other
// module.
func printComparison(ctx context.Context, now string) error {
	before, err := filepath.Abs(baseline)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tools/run", "benchstat", "baseline="+before, "now="+now)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	_, err = os.Stdout.Write(out)
	return err
}

// samples is how often allocations are measured: the number that benchstat requires.
const samples = 6

// measure writes the costs of a package's cases, in the form of Go's benchmarks.
func measure(ctx context.Context, out *bytes.Buffer, pkg, dir string) error {
	binary := filepath.Join(dir, filepath.Base(pkg)+".counting")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "-covermode=count", "-coverpkg=./core/...", "./"+
		pkg)
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build with counters: %w\n%s", err, text)
	}
	text, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkEffort$", "-benchtime", "100x",
		"-count", fmt.Sprint(samples), "-cpu", "1", "-benchmem", "./"+pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	statementsByCase := map[string]int{}
	fmt.Fprintf(out, "pkg: %s\n", pkg)
	for line := range strings.Lines(string(text)) {
		c, ok := parseCost(line)
		if !ok {
			continue
		}
		n, known := statementsByCase[c.name]
		if !known {
			if n, err = statements(ctx, binary, filepath.Join(dir, "profile"), c.name); err != nil {
				return err
			}
			statementsByCase[c.name] = n
		}
		fmt.Fprintf(out, "%s 100 %d statements/op %.0f B/op %.0f allocs/op\n", c.name, n, c.units["B/op"],
			c.units["allocs/op"])
	}
	if len(statementsByCase) == 0 {
		return errors.New("no benchmark Effort")
	}
	return nil
}

// statements returns how many statements of core one answer executes. It runs the case a few and many times, and
// divides the difference, so that the preparation of the case does not count.
func statements(ctx context.Context, binary, profile, name string) (int, error) {
	const few, many = 10, 60
	var sums [2]int
	for i, times := range []int{few, many} {
		var pattern []string
		for _, part := range strings.Split(name, "/") {
			pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
		}
		cmd := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", strings.Join(pattern, "/"),
			"-test.cpu", "1",
			"-test.benchtime", fmt.Sprintf("%dx", times), "-test.coverprofile", profile)
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("run %s: %w\n%s", name, err, out)
		}
		data, err := os.ReadFile(profile)
		if err != nil {
			return 0, fmt.Errorf("read what %s executes: %w", name, err)
		}
		for line := range strings.Lines(string(data)) {
			var n, count int
			if _, rest, ok := strings.Cut(line, " "); ok {
				if _, err := fmt.Sscan(rest, &n, &count); err == nil {
					sums[i] += n * count
				}
			}
		}
	}
	return (sums[1] - sums[0]) / (many - few), nil
}

// cost is one line of a benchmark's output: the name of the case, and its amounts by unit, such as "allocs/op".
type cost struct {
	name  string
	units map[string]float64
}

func parseCost(line string) (cost, bool) {
	words := strings.Fields(line)
	if len(words) < 4 || !strings.HasPrefix(words[0], "BenchmarkEffort/") {
		return cost{}, false
	}
	c := cost{words[0], map[string]float64{}}
	for i := 2; i+1 < len(words); i += 2 {
		var x float64
		if _, err := fmt.Sscan(words[i], &x); err != nil || x < 0 {
			return cost{}, false
		}
		c.units[words[i+1]] = x
	}
	return c, true
}

// readCosts returns the costs of every case, by package and name. Of several lines for a case, it returns the least
// amounts.
func readCosts(text string) map[string]cost {
	out, pkg := map[string]cost{}, ""
	for line := range strings.Lines(text) {
		if p, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = strings.TrimSpace(p)
		}
		c, ok := parseCost(line)
		if !ok {
			continue
		}
		key := pkg + " " + strings.TrimPrefix(c.name, "BenchmarkEffort/")
		if have, ok := out[key]; ok {
			for unit, x := range have.units {
				c.units[unit] = min(x, c.units[unit])
			}
		}
		out[key] = c
	}
	return out
}

// compare returns an error that names the cases whose cost has grown too much.
func compare(before, now string) error {
	baselineCosts, newCosts := readCosts(before), readCosts(now)
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	names := slices.Sorted(maps.Keys(newCosts))
	for _, name := range names {
		oldCost, ok := baselineCosts[name]
		newCost := newCosts[name]
		switch {
		case !ok:
			fail("%s is not in the baseline: go run ./test/effort -renew", name)
		case newCost.units["allocs/op"] > oldCost.units["allocs/op"]:
			fail("%s: %.0f allocations, %.0f in the baseline", name, newCost.units["allocs/op"],
				oldCost.units["allocs/op"])
		case newCost.units["statements/op"] > 2*oldCost.units["statements/op"]:
			fail("%s: %.0f statements, more than twice the %.0f of the baseline", name,
				newCost.units["statements/op"], oldCost.units["statements/op"])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(baselineCosts)) {
		if _, ok := newCosts[name]; !ok {
			fail("%s is in the baseline only: go run ./test/effort -renew", name)
		}
	}
	return errors.Join(errs...)
}
