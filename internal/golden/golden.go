// Package golden compares a test's output with a file in testdata, the golden file.
//
// Invariant: without -update no file is written. With -update every compared file gets the test's output, and the
// test passes: read the difference before you commit it. The package is for tests only.
package golden

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Check fails the test if got differs from the content of the file, and shows the lines that differ. The file is
// relative to the folder of the test. Check ends the test if the file cannot be read or written.
func Check(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got; go test -update writes it anew):\n%s", file, diff)
	}
}
