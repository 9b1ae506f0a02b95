package whole

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A pod without a node waits until the measurement ends: it must not make an attack look harmless.
func TestPodsWithoutNodeCountUntilTheEnd(t *testing.T) {
	start := time.Unix(1000, 0)
	f := &follower{bindings: []binding{{pod: "quick", at: start.Add(10 * time.Millisecond)},
		{pod: "elsewhere", at: start}}}
	w := f.waits(map[types.UID]time.Time{"quick": start, "never": start}, start.Add(30*time.Second))
	if w.Pods != 2 || w.Unbound != 1 || w.Max != 30*time.Second || w.P99 != 30*time.Second {
		t.Errorf("got %+v, want one of two pods unbound, which waited 30 s", w)
	}
}

func TestReportSaysThatASchedulerDied(t *testing.T) {
	text := ReportEndured([]Endured{{Contender: "Tenon", Attack: "a", By: "node", Ended: "out of memory"}})
	if !strings.Contains(text, "it died") {
		t.Errorf("the report hides that the scheduler ended:\n%s", text)
	}
}

// Every attack names who can do it, and its name fits a table.
func TestAttacksAreNamed(t *testing.T) {
	for _, a := range Attacks() {
		if a.Name == "" || len(a.Name) > 60 || a.run == nil || !strings.Contains("node user binder", a.By) {
			t.Errorf("attack %+v lacks a name, a person or what it does", a)
		}
	}
}
