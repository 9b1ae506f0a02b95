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

func TestInstead(t *testing.T) {
	known := []string{"gpu-b", "gpu-a", "trainer-7f9c-x2", "edge", "plain", "sparse"}
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"gpu_b", known, "; gpu-b may be meant"},
		{"trainer", known, "; trainer-7f9c-x2 may be meant"},
		{"nowhere", known, "; there are edge, gpu-a, gpu-b, plain, sparse and 1 more"},
		{"nowhere", known[:2], "; there are gpu-a, gpu-b"},
		{"nowhere", known[:1], "; there is gpu-b"},
		{"", known[:1], "; there is gpu-b"},
		{"nowhere", nil, ""},
	} {
		if got := printable.Instead(c.name, c.known); got != c.want {
			t.Errorf("%q among %v: %q, want %q", c.name, c.known, got, c.want)
		}
	}
}
