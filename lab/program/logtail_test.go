package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/lab/program"
)

func TestReadReturnsWhatExplainsTheEnd(t *testing.T) {
	noise := strings.Repeat("goroutine 7 [select]:\n", 100)
	for name, c := range map[string]struct{ log, first, last string }{
		"short":            {"one\ntwo\n", "one", "two"},
		"long":             {strings.Repeat("x\n", 1<<20) + "a\n" + strings.Repeat("b\n", 14), "a", "b"},
		"a panic":          {noise + "panic: no node\n" + noise, "panic: no node", "goroutine 7 [select]:"},
		"a race of maps":   {"fatal error: concurrent map writes\n", "fatal error: concurrent map writes", ""},
		"nothing is there": {"", "", ""},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		got := program.LogTail(file)
		if !strings.HasPrefix(got, c.first) || !strings.HasSuffix(got, c.last) || strings.Count(got, "\n") > 30 {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := program.LogTail(filepath.Join(t.TempDir(), "missing")); !strings.Contains(got, "no such file") {
		t.Errorf("no log: got %q", got)
	}
}
