package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/face/cli"
)

// map draws the output of "tenon-agent snapshot", without a cluster.
func TestMapOfASnapshot(t *testing.T) {
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), []string{"map", "--machine", "../../node/sysfs/testdata/two-sockets.txtar"},
		&out, &errs, cli.Setup{Machine: setup("test").Machine})
	if code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if want := "2 sockets · 2 NUMA nodes · 16 CPUs (8 cores) · 128Gi memory"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in\n%s", want, out.String())
	}
}

// Anomalies of the machine are listed apart from the drawing.
func TestMapOfASnapshotWithAnomalies(t *testing.T) {
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), []string{"map", "--machine", "../../node/sysfs/testdata/lying-firmware.txtar"},
		&out, &errs, cli.Setup{Machine: setup("test").Machine})
	if want := "Warning: cpu-in-numas: "; code != 0 || !strings.Contains(errs.String(), want) ||
		strings.Contains(out.String(), "Warning") {
		t.Errorf("exit code %d, want %q on stderr alone, got stderr\n%s\nstdout\n%s", code, want, errs.String(), out.String())
	}
}
