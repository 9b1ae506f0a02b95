package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"

	"github.com/tenon-numa/tenon/node/hardware"
)

// The snapshot of this host describes the machine that discovery finds on it.
func TestSnapshotCommand(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"snapshot"}, env{}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "host.txtar")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	here, _, err := (&hardware.Source{Log: logr.Discard()}).ReadMachine(t.Context())
	if err != nil {
		t.Fatalf("no machine is found here: %v", err)
	}
	there, _, err := (&hardware.Source{File: file, Log: logr.Discard()}).ReadMachine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := here.CPUs().String(), there.CPUs().String(); a != b {
		t.Errorf("CPUs %s here, %s in the snapshot", a, b)
	}
}

func TestSnapshotRefusesArguments(t *testing.T) {
	err := run(t.Context(), []string{"snapshot", "x"}, env{}, io.Discard, io.Discard)
	if err == nil || err.Error() != `unexpected argument "x"` {
		t.Errorf("got %v", err)
	}
}
