package follow

import (
	"runtime/debug"
	"testing"
)

// After the last of several schedulers in a process has read its first lists, the garbage collector runs as before.
func TestTheCollectorIsAsBeforeAfterTheLists(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	before := percent()
	one, other := collectOften(), collectOften()
	one()
	one()
	if got := percent(); got != listingPercent {
		t.Errorf("%d %% while a scheduler still reads", got)
	}
	other()
	if got := percent(); got != before {
		t.Errorf("%d %% afterwards, %d %% before", got, before)
	}
	t.Setenv("GOGC", "70")
	defer collectOften()()
	if got := percent(); got != before {
		t.Errorf("%d %% although the user has set GOGC", got)
	}
}
