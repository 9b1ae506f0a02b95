package place_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
)

const (
	kubeletPage = "../../docs/design/kubelet.md"
	tableBegins = "<!-- releases -->\n"
	tableEnds   = "<!-- end of releases -->\n"
)

// The page about the kubelet has the table of what differs between releases; go test -update writes it.
func TestThePageSaysWhatReleasesDiffer(t *testing.T) {
	page, err := os.ReadFile(kubeletPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q and %q", kubeletPage, tableBegins, tableEnds)
	}
	var b strings.Builder
	b.WriteString("\n| since | before | from then on | read from | shown by |\n|---|---|---|---|---|\n")
	for _, c := range place.Changes() {
		var shown []string
		for _, name := range c.Scenarios {
			if _, err := os.Stat("testdata/" + name + ".txt"); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			shown = append(shown, "`"+name+"`")
		}
		if len(shown) == 0 {
			shown = []string{"restarts in the differential test"}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.Since, c.Before, c.After, c.Source, strings.Join(shown, ", "))
	}
	b.WriteString("\n")
	want := before + tableBegins + b.String() + tableEnds + after
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatalf("%s has another table; write it anew with -update", kubeletPage)
	}
	if err := os.WriteFile(kubeletPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every row has scenarios on both sides of the change, and each of them ends otherwise under the other side's rule.
func TestScenariosShowWhatReleasesDiffer(t *testing.T) {
	for _, c := range place.Changes() {
		if c.Name == "memory-state" { // a scenario does not have the kubelet's own count of free memory
			continue
		}
		before, after := 0, 0
		for _, name := range c.Scenarios {
			text, err := os.ReadFile("testdata/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			f, err := scenario.Parse(name, string(text))
			if err != nil {
				t.Fatal(err)
			}
			other := c.Since
			if r := f.Rules.Release; r != 0 && r < c.Since || r == 0 && place.DefaultRelease < c.Since {
				before++
			} else {
				after, other = after+1, c.Since-1
			}
			own := f.Play()
			if f.Rules.Release = other; f.Play() == own {
				t.Errorf("%s: scenario %s is the same under %s", c.Name, name, other)
			}
		}
		if before == 0 || after == 0 {
			t.Errorf("%s: %d scenarios before %s, %d from then on, want some of each", c.Name, before, c.Since, after)
		}
	}
}

func TestReleasesAreReadFromVersions(t *testing.T) {
	for text, want := range map[string]place.Release{"v1.36.3": 36, "v1.30.14+k3s1": 30, "v1.40.0-gke.1": 40,
		"v1.36.0-rc.1": 0, "1.36.3": 0, "v2.36.3": 0, "v1.036.0": 0, "v1.36": 0, "": 0} {
		if got, ok := place.ReleaseOf(text); got != want || ok != (want != 0) {
			t.Errorf("%q: %v %v, want %v", text, int(got), ok, int(want))
		}
	}
}

// Rules without a release are the rules of the default release, and a release beyond the table has its last rules.
func TestReleasesThatAreNotModelled(t *testing.T) {
	for r, want := range map[place.Release]place.Release{0: 37, 29: 30, 33: 33, 38: 37} {
		if got := r.Nearest(); got != want {
			t.Errorf("nearest to %s is %s, want %s", r, got, want)
		}
	}
	if !(place.Rules{}).Equal(place.Rules{Release: place.DefaultRelease}) {
		t.Error("no release and the default release are different rules")
	}
}
