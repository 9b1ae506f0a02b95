package golden_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/internal/golden"
)

// recorder is a test that only records that it failed.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Errorf(format string, args ...any) { r.failed += format }

func TestCheckShowsADifference(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.txt")
	if err := os.WriteFile(file, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	same, other := &recorder{TB: t}, &recorder{TB: t}
	golden.Check(same, file, "a\nb\n")
	golden.Check(other, file, "a\nc\n")
	if same.failed != "" || !strings.Contains(other.failed, "differs") {
		t.Errorf("equal: %q, different: %q", same.failed, other.failed)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "a\nb\n" {
		t.Errorf("the file has %q, %v", data, err)
	}
}
