package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// The agent takes a snapshot for the machine, and says once what is odd about it.
func TestMachineOfASnapshot(t *testing.T) {
	var said []string
	m := machine{file: "../../node/sysfs/testdata/lying-firmware.txtar",
		log: funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})}
	for range 2 {
		got, err := m.Machine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := got.CPUs().Len(); n != 8 {
			t.Errorf("%d CPUs, want 8", n)
		}
	}
	if text := strings.Join(said, "\n"); strings.Count(text, `"cpu-in-numas"`) != 1 {
		t.Errorf("want cpu-in-numas said once in\n%s", text)
	}
}

// What the snapshot command writes of this host is a machine to the agent.
func TestSnapshotCommand(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"snapshot"}, env{}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "host.txtar")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := (&machine{}).find()
	if err != nil {
		t.Fatalf("no machine is found here: %v", err)
	}
	there, err := (&machine{file: file}).find()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := here.Machine.CPUs().String(), there.Machine.CPUs().String(); a != b {
		t.Errorf("CPUs %s here, %s in the snapshot", a, b)
	}
}

func TestSnapshotRefusesArguments(t *testing.T) {
	if err := run(t.Context(), []string{"snapshot", "x"}, env{}, io.Discard, io.Discard); err == nil || err.Error() != `unexpected argument "x"` {
		t.Errorf("got %v", err)
	}
}
