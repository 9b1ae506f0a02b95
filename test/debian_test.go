package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestWhatIsNotRunIsSaidAndFailsInCI(t *testing.T) {
	for _, ci := range []string{"", "1"} {
		t.Setenv("CI", ci)
		var out bytes.Buffer
		r := &runner{out: &out, began: time.Now()}
		if err := r.reportNotRun("%s: no kernel", "guests"); (err != nil) != (ci != "") {
			t.Errorf("CI=%q: %v", ci, err)
		}
		if len(r.untested) != 1 || !strings.Contains(out.String(), "NOT RUN: guests: no kernel") {
			t.Errorf("said %q, and at the end %q", out.String(), r.untested)
		}
	}
}

func TestEveryPackageHasAReason(t *testing.T) {
	for _, n := range append(toInstall, toUnpack...) {
		if n.arch == "" || n.name == "" || n.why == "" {
			t.Errorf("%+v", n)
		}
	}
	got := reasons([]debianPackage{{"", "b", "two, three"}, {"", "a", "one"}, {"", "c", "two"}})
	if got != "one, three, two" {
		t.Errorf("reasons are %q", got)
	}
}
