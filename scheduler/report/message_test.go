package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/summary"
)

func TestTheSentenceComesFirstInEvents(t *testing.T) {
	s := summary.Summary{Kind: summary.Never, Text: "Never here: too large", Remedy: "ask for less"}
	got := NoNode(s, map[string]int{"Insufficient cpu": 9, "1 node(s) had untolerated taint(s)": 1,
		`never on this machine: container "c" wants 120 cpu on one NUMA node; the largest has 112`: 3})
	want := "Never here: too large. Remedy: ask for less. By node: " +
		`3 never on this machine: container "c" wants 120 cpu on one NUMA node; the largest has 112, 9 Insufficient cpu, ` +
		"1 1 node(s) had untolerated taint(s)"
	if got != want {
		t.Errorf("the event says %q\nwant %q", got, want)
	}
	if cut := summary.Cut("0/13 nodes are available: " + got + ". preemption: 0/13 nodes are available"); cut != s.Text {
		t.Errorf("the sentence in the event is %q, want %q", cut, s.Text)
	}
	if cut := summary.Cut("0/13 nodes are available: 13 Insufficient cpu."); cut != "" {
		t.Errorf("a message of kube-scheduler has the sentence %q", cut)
	}
}

func TestEventsEndWithAWholeReason(t *testing.T) {
	counts := map[string]int{}
	for i := range 100 {
		counts[fmt.Sprintf("reason %02d, which takes some thirty bytes", i)] = 1
	}
	for _, s := range []summary.Summary{{}, {Text: strings.Repeat("word ", 200), Remedy: strings.Repeat("help ", 200)}} {
		got := NoNode(s, counts)
		if len(got) > maxMessage+80 || !strings.HasSuffix(got, "other reasons") || !strings.Contains(got, "1 reason 00") {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	}
}
