package whole

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The log is that of kube-scheduler with the plugin at -v=4. Pod b is tried twice, and bound without a turn of its own.
func TestTheWayOfAPodIsThatOfItsLastAttempt(t *testing.T) {
	const log = `I1127 15:00:01.000000    77 schedule_one.go:117] "Attempting to schedule pod" pod="default/b"
I1127 15:00:01.002000    77 schedule_one.go:1190] "Unable to schedule pod; no fit; waiting" pod="default/b" err="0/1"
I1127 15:00:02.000000    77 schedule_one.go:117] "Attempting to schedule pod" pod="default/a"
I1127 15:00:02.004000    77 attempt.go:70] "Reserved" logger="Tenon" pod="default/a" node="n" holdings="c: cpus 1-2"
I1127 15:00:02.005000    77 schedule_one.go:117] "Attempting to schedule pod" pod="default/b"
I1127 15:00:02.015000    77 schedule_one.go:117] "Attempting to schedule pod" pod="default/c"
I1127 15:00:02.034000    77 attempt.go:83] "Turn has come" logger="Tenon" pod="default/a" node="n" holdings="c: cpus 1-2"
I1127 15:00:02.035000    77 default_binder.go:54] "Attempting to bind pod to node" pod="default/a" node="n"
I1127 15:00:02.045000    77 schedule_one.go:483] "Successfully bound pod to node" pod="default/a" node="n"
I1127 15:00:02.055000    77 schedule_one.go:483] "Successfully bound pod to node" pod="default/b" node="n"
I1127 15:00:02.255000    77 sources.go:120] "Prediction settled" pod="default/a" node="n" result="confirmed"
`
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 27, 15, 0, 0, 0, time.Local)
	var records []record
	if err := readLog(file, 2026, func(r record) { records = append(records, r) }); err != nil {
		t.Fatal(err)
	}
	records = append(records, record{"default/a", Arrived, began.Add(2050 * time.Millisecond)})
	got := trace(began, map[types.UID]string{"1": "default/a", "2": "default/b"},
		[]binding{{pod: "1", node: "n"}, {pod: "2", node: "n"}}, records)
	for _, c := range []struct {
		pod      int
		from, to Moment
		want     time.Duration // negative: it did not come
	}{
		{0, Tried, Chosen, 4 * time.Millisecond}, {0, Chosen, Turn, 30 * time.Millisecond},
		{0, Turn, Sent, time.Millisecond}, {0, Sent, Bound, 10 * time.Millisecond}, {0, Bound, Arrived, 5 * time.Millisecond},
		{1, Tried, Chosen, 10 * time.Millisecond}, {1, Chosen, Turn, -1}, {1, Sent, Bound, -1},
	} {
		d, ok := got[c.pod].duration(c.from, c.to)
		if ok != (c.want >= 0) || ok && d != c.want {
			t.Errorf("pod %s from %s to %s: %s (%v), want %s", got[c.pod].Pod, c.from, c.to, d, ok, c.want)
		}
	}
	if got[0].Tries != 1 || got[1].Tries != 2 {
		t.Errorf("pods were tried %d and %d times, want 1 and 2", got[0].Tries, got[1].Tries)
	}
	text := TraceReport("Tenon", got)
	for _, want := range []string{"turn                30.00", "3 attempts for 2 pods", "default/a on n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if len(line) > 101 {
			t.Errorf("a line has %d columns: %s", len(line), line)
		}
	}
}
