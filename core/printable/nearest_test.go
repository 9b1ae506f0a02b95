package printable_test

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/printable"
)

func TestNearest(t *testing.T) {
	known := []string{"tenon-scheduler", "default-scheduler", "volcano", "tenon"}
	for name, want := range map[string]string{"tenon-schedular": "tenon-scheduler", "Tenon_Scheduler": "tenon-scheduler",
		"default-sheduler": "default-scheduler", "tennon": "tenon", "volcan": "volcano", "my-scheduler": "", "": "",
		strings.Repeat("x", 1<<20): ""} {
		if got := printable.Nearest(name, known); got != want {
			t.Errorf("%.40q: %q, want %q", name, got, want)
		}
	}
	if got := printable.Nearest("cat", []string{"hat", "bat"}); got != "bat" {
		t.Errorf("of equally near names %q, want the first in the alphabet", got)
	}
}
