package hardware

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/node/sysfs"
)

// A snapshot stands for the machine, and its anomalies are logged once.
func TestMachineOfASnapshot(t *testing.T) {
	var logged []string
	s := Source{File: "../sysfs/testdata/lying-firmware.txtar",
		Log: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})}
	for range 2 {
		got, _, err := s.ReadMachine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := got.CPUs().Len(); n != 8 {
			t.Errorf("%d CPUs, want 8", n)
		}
	}
	if text := strings.Join(logged, "\n"); strings.Count(text, `"cpu-in-numas"`) != 1 {
		t.Errorf("want cpu-in-numas logged once in\n%s", text)
	}
}

// Devices whose plugins name them by PCI addresses have the PCI root that the kernel shows.
func TestRootsOfASnapshot(t *testing.T) {
	s := Source{File: "../sysfs/testdata/devices.txtar", Log: logr.Discard()}
	_, d, err := s.ReadMachine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range d.Functions {
		if d.Roots[f.Address] == "" {
			t.Errorf("function %s has no root", f.Address)
		}
	}
	if len(d.Roots) <= len(d.Functions) {
		t.Errorf("%d functions have roots: virtual ones have none", len(d.Roots))
	}
}

// What a person should know of the machine is in the detail, and not what virtual machines lack.
func TestOddities(t *testing.T) {
	f, err := os.Open("../sysfs/testdata/devices.txtar")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree, err := sysfs.ReadSnapshot(f)
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]int{"": 0, "0": 0, "1": 1, "2": 1} {
		root := overlay{tree, map[string]string{"proc/sys/kernel/numa_balancing": mode}}
		_, d, err := (&Source{Root: root, Log: logr.Discard()}).ReadMachine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, o := range d.Oddities {
			switch o.Code {
			case "numa-balancing":
				found++
			case "missing", "no-cache":
				t.Errorf("%s: %s", o.Code, o.Message)
			}
		}
		if found != want {
			t.Errorf("numa_balancing %q: %d oddities, want %d of\n%v", mode, found, want, d.Oddities)
		}
	}
}

// overlay is a tree with further files; one without content is not there.
type overlay struct {
	fs.FS
	files map[string]string
}

func (o overlay) Open(name string) (fs.File, error) {
	if text := o.files[name]; text != "" {
		return fstest.MapFS{name: {Data: []byte(text)}}.Open(name)
	}
	return o.FS.Open(name)
}

func (o overlay) ReadLink(name string) (string, error)   { return fs.ReadLink(o.FS, name) }
func (o overlay) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(o.FS, name) }

func TestMachineFilesThatAreRefused(t *testing.T) {
	for file, want := range map[string]string{"/nowhere/machine.txt": "machine file /nowhere/machine.txt: open",
		"testdata": "open", "hardware.go": "machine file hardware.go"} {
		m, _, err := (&Source{File: file, Log: logr.Discard()}).ReadMachine(t.Context())
		if m != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: machine %v, error %v", file, m, err)
		}
	}
}

// countingFS counts how often each path is opened.
type countingFS struct {
	fs.FS
	opened map[string]int
}

func (c countingFS) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.FS.Open(name)
}

func (c countingFS) ReadLink(name string) (string, error)   { return fs.ReadLink(c.FS, name) }
func (c countingFS) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(c.FS, name) }

// One reading of the hardware opens each file of /sys and /proc once, the detail included.
func TestEachFileIsReadOnce(t *testing.T) {
	f, err := os.Open("../sysfs/testdata/devices.txtar")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree, err := sysfs.ReadSnapshot(f)
	if err != nil {
		t.Fatal(err)
	}
	c := countingFS{tree, map[string]int{}}
	s := Source{Root: c, Log: logr.Discard()}
	for round := 1; round <= 2; round++ {
		if _, d, err := s.ReadMachine(t.Context()); err != nil || len(d.Functions) == 0 {
			t.Fatalf("%d functions, error %v", len(d.Functions), err)
		}
		for name, n := range c.opened {
			if n != round {
				t.Errorf("%s is opened %d times by %d readings", name, n, round)
			}
		}
	}
}

// Virtual functions are counted at their physical function, and functions that do not matter to pods are left out.
func TestFunctionsOfInterest(t *testing.T) {
	vf := func(address, driver string) sysfs.Function {
		return sysfs.Function{Address: address, Physical: "0000:17:00.0", Kind: sysfs.NIC, NUMA: 1, Driver: driver}
	}
	got := functions([]sysfs.Function{
		{Address: "0000:00:1f.0", Kind: sysfs.Other},
		{Address: "0000:17:00.0", Kind: sysfs.NIC, Vendor: 0x15b3, Device: 0x1021, Driver: "mlx5_core", NUMA: 1},
		vf("0000:17:00.1", "vfio-pci"), vf("0000:17:00.2", "vfio-pci"),
		{Address: "0000:65:00.0", Kind: sysfs.GPU, Vendor: 0x10de, Device: 0x2330, NUMA: sysfs.Nowhere},
		{Address: "0000:65:00.4", Kind: sysfs.NIC, Physical: "0000:99:00.0"},
	})
	want := []v1alpha1.Function{
		{Address: "0000:17:00.0", Class: "nic", ID: "15b3:1021", Driver: "mlx5_core", NUMAs: "1", Virtual: 2,
			VirtualDriver: "vfio-pci"},
		{Address: "0000:65:00.0", Class: "gpu", ID: "10de:2330"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("functions are %+v, want %+v", got, want)
	}
	mixed := functions([]sysfs.Function{{Address: "0000:17:00.0", Kind: sysfs.NIC}, vf("a", "x"), vf("b", "y")})
	if mixed[0].VirtualDriver != "" {
		t.Errorf("functions of two drivers have driver %s", mixed[0].VirtualDriver)
	}
}
