package place_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
)

// Scenario files are testdata/BEHAVIOUR.txt; package scenario describes their format. `go test ./core/place -run
// Scenarios -update` rewrites the expected outcomes.

var update = flag.Bool("update", false, "rewrite the output lines of the scenario files")

// scenarioFiles calls do for each scenario file, as a subtest.
func scenarioFiles(t *testing.T, do func(t *testing.T, file, text string, f *scenario.File)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d scenario files, want at least 100 (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := scenario.Parse(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			do(t, file, string(text), f)
		})
	}
}

func TestScenarios(t *testing.T) {
	scenarioFiles(t, func(t *testing.T, file, text string, f *scenario.File) {
		got := f.Play()
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if got != text {
			t.Errorf("%s:%d: the steps give\n%s", file, firstDifference(got, text), got)
		}
	})
}

// The quick answer is that of the verdict at each step of every scenario.
func TestFitsAgreesWithPlaceInScenarios(t *testing.T) {
	scenarioFiles(t, func(t *testing.T, file, _ string, f *scenario.File) {
		n := f.Begin()
		for _, s := range f.Steps {
			if s.Do != scenario.Admit {
				n.Do(s)
				continue
			}
			u := n.Usage()
			v, fits := place.Place(u, &s.Pod), place.Fits(u, &s.Pod)
			if fits != v.Fits() {
				t.Errorf("%s: %s: Fits says %v, Place says %v", file, s.Name, fits, v.Fits())
			}
			if v.Fits() && place.Judge(u, &s.Pod, v, s.Demand).Fits() {
				n.Hold(s.Name, v.Holdings)
			}
		}
	})
}

func firstDifference(a, b string) int {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i + 1
		}
	}
	return min(len(x), len(y))
}
