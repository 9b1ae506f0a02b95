package place_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// Time depends on the machine, and counters of instructions are not to be had everywhere. What an answer
// costs is therefore counted in statements that it executes, in all of core: a second build of these
// tests counts them, as for coverage.

// effort is one answer and about how many statements it executes; twice as many fail the test, and so do
// less than half, so that what is stated stays true.
type effort struct {
	name       string
	statements int
	answer     func() func()
}

func efforts(tb testing.TB) []effort {
	cases := map[string]benchCase{}
	for _, c := range benchCases(tb) {
		cases[c.name] = c
	}
	again := func(name string) func() func() {
		return func() func() {
			c := cases[name]
			q := place.NewQuestion(c.pod)
			q.Fits(c.usage)
			return func() { q.Fits(c.usage) }
		}
	}
	once := func(name string) func() func() {
		return func() func() { c := cases[name]; return func() { place.Fits(c.usage, c.pod) } }
	}
	verdict := func(name string) func() func() {
		return func() func() { c := cases[name]; return func() { place.Place(c.usage, c.pod) } }
	}
	hold := func() func() {
		c := cases["numas=8/single-numa-node/cpu+memory+gpu"]
		v := place.Place(c.usage, c.pod)
		return func() { c.usage.Hold(v.Holdings...) }
	}
	return []effort{
		{"again: single-numa-node", 50, again("numas=8/single-numa-node/cpu+memory+gpu")},
		{"again: single-numa-node, refused", 70, again("numas=8/single-numa-node/refused")},
		{"again: restricted", 60, again("numas=8/restricted/cpu+memory+gpu")},
		{"again: restricted, refused", 25, again("numas=8/restricted/refused")},
		{"again: best-effort", 36, again("numas=8/best-effort/cpu+memory+gpu")},
		{"again: best-effort, not aligned", 36, again("numas=8/best-effort/refused")},
		{"once: single-numa-node", 130, once("numas=8/single-numa-node/cpu+memory+gpu")},
		{"once: restricted", 250, once("numas=8/restricted/cpu+memory+gpu")},
		{"once: best-effort", 220, once("numas=8/best-effort/cpu+memory+gpu")},
		{"verdict: single-numa-node", 1400, verdict("numas=8/single-numa-node/cpu+memory+gpu")},
		{"verdict: single-numa-node, refused", 2400, verdict("numas=8/single-numa-node/refused")},
		{"verdict: restricted, refused", 19000, verdict("numas=8/restricted/refused")},
		{"verdict: best-effort, not aligned", 39000, verdict("numas=8/best-effort/refused")},
		{"hold", 170, hold},
	}
}

// effortTimes tells the counting build how often to answer; effortCase which answer.
const effortTimes, effortCase = "TENON_EFFORT_TIMES", "TENON_EFFORT_CASE"

// TestEffortIsSpent does the work that TestEffortIsBounded counts.
func TestEffortIsSpent(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv(effortTimes))
	if err != nil {
		return // nobody counts
	}
	for _, e := range efforts(t) {
		if e.name == os.Getenv(effortCase) {
			answer := e.answer()
			for range times {
				answer()
			}
		}
	}
}

func TestEffortIsBounded(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "counting")
	build := exec.Command("go", "test", "-c", "-o", binary, "-covermode=count", "-coverpkg=github.com/tenon-numa/tenon/core/...", ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with counters: %v\n%s", err, out)
	}
	for _, e := range efforts(t) {
		const times = 50
		n := (executed(t, binary, dir, e.name, times) - executed(t, binary, dir, e.name, 0)) / times
		switch {
		case n > 2*e.statements:
			t.Errorf("%s: %d statements, twice the %d that are stated", e.name, n, e.statements)
		case 2*n < e.statements:
			t.Errorf("%s: %d statements, less than half of the %d that are stated: state what it is now", e.name, n, e.statements)
		default:
			t.Logf("%s: %d statements", e.name, n)
		}
	}
}

// executed returns how many statements of core a run of the counting build executes.
func executed(t *testing.T, binary, dir, name string, times int) (sum int) {
	profile := filepath.Join(dir, "profile")
	run := exec.Command(binary, "-test.run", "^TestEffortIsSpent$", "-test.coverprofile", profile)
	run.Env = append(os.Environ(), effortCase+"="+name, effortTimes+"="+strconv.Itoa(times))
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("run %s: %v\n%s", name, err, out)
	}
	f, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var statements, count int
		if _, rest, ok := strings.Cut(lines.Text(), " "); ok {
			if _, err := fmt.Sscan(rest, &statements, &count); err == nil {
				sum += statements * count
			}
		}
	}
	return sum
}
