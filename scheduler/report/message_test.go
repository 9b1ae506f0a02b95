package report

import (
	"fmt"
	"strings"
	"testing"
)

func TestWhatCanNeverBeComesFirstInEvents(t *testing.T) {
	got := NoNode(map[string]int{"Insufficient cpu": 9, "1 node(s) had untolerated taint(s)": 1,
		`never on this machine: container "c" wants 120 cpu on one NUMA node; the largest has 112`: 3}, "")
	want := `3 never on this machine: container "c" wants 120 cpu on one NUMA node; the largest has 112, 9 Insufficient cpu, ` +
		"1 1 node(s) had untolerated taint(s)"
	if got != want {
		t.Errorf("the event says %q\nwant %q", got, want)
	}
}

func TestEventsEndWithAWholeReason(t *testing.T) {
	counts := map[string]int{}
	for i := range 100 {
		counts[fmt.Sprintf("reason %02d, which takes some thirty bytes", i)] = 1
	}
	got := NoNode(counts, "")
	if len(got) > maxMessage+40 || !strings.HasSuffix(got, "other reasons") || !strings.HasPrefix(got, "1 reason 00") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
