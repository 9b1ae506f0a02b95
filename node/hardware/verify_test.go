package hardware

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"

	"github.com/tenon-numa/tenon/node/sysfs"
)

// A machine file that describes another machine than the one it is on is refused, with each difference.
func TestMachineFilesOfOtherMachines(t *testing.T) {
	const real = "../sysfs/testdata/two-sockets.txtar"
	f, err := os.Open(real)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	host, err := sysfs.ReadSnapshot(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const first, second = "numa 0 socket 0 cpus 0-3/8-11 memory 64Gi\n", "numa 1 socket 1 cpus 4-7/12-15 memory 64Gi\n"
	swapped := strings.NewReplacer("numa 0", "numa 1", "numa 1", "numa 0").Replace(first + second)
	small := first + strings.Replace(second, "64Gi", "32Gi", 1)
	for path, want := range map[string]string{
		"":                              "",
		real:                            "",
		file("same.txt", first+second):  "",
		file("swapped.txt", swapped):    "its NUMA node 0 has CPUs 4-7,12-15, the host's 0-3,8-11",
		file("small.txt", small):        "its NUMA node 1 has 32Gi memory, the host's 64Gi",
		"../../lab/machines/sparse.txt": "; it has NUMA nodes 0,8,16, the host 0-1",
		"../../lab/machines/gpu-8.txt":  "it has 224 CPUs, the host",
	} {
		err := (&Source{File: path, Root: host, Log: logr.Discard()}).Verify()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
	if err := (&Source{File: real, Root: fstest.MapFS{}, Log: logr.Discard()}).Verify(); err != nil {
		t.Errorf("a host that shows nothing: %v", err)
	}
}
