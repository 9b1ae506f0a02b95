package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/node/agent"
	"github.com/tenon-numa/tenon/node/sysfs"
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

// Devices that plugins name by their addresses have the PCI root that their kernel shows.
func TestRootsOfASnapshot(t *testing.T) {
	m := machine{file: "../../node/sysfs/testdata/devices.txtar"}
	d, err := m.Detail(t.Context())
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

// Virtual functions are counted at their physical one; what pods do not care about is left out.
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
		{Address: "0000:17:00.0", Class: "nic", ID: "15b3:1021", Driver: "mlx5_core", NUMAs: "1", Virtual: 2, VirtualDriver: "vfio-pci"},
		{Address: "0000:65:00.0", Class: "gpu", ID: "10de:2330"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("functions are %+v, want %+v", got, want)
	}
	if mixed := functions([]sysfs.Function{{Address: "0000:17:00.0", Kind: sysfs.NIC}, vf("a", "x"), vf("b", "y")}); mixed[0].VirtualDriver != "" {
		t.Errorf("functions of two drivers are said to be of %s", mixed[0].VirtualDriver)
	}
}

func TestSourcesOfTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		args, want, wrong string
	}{
		{"", "*kubelet.Preferred", ""},
		{"--kubelet-config-source=kubelet --kubelet-address=10.0.0.7", "*kubelet.Endpoint", ""},
		{"--kubelet-config-source=api-server", "*kubelet.Endpoint", ""},
		{"--kubelet-config-source=files", "kubelet.Files", ""},
		{"--kubelet-config-source=elsewhere", "", "elsewhere"},
		{"--kubelet-ca-file=/nowhere/ca.crt", "", "/nowhere/ca.crt"},
	} {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		var a asking
		a.flags(fs, "")
		if err := fs.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		cfg := agent.Config{NodeName: "node-a", REST: &rest.Config{Host: "https://api:6443"}}
		err := a.open(&cfg)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: error %v", c.args, err)
			}
		} else if got := fmt.Sprintf("%T", cfg.Rules); err != nil || got != c.want {
			t.Errorf("%s: source is %s, error %v", c.args, got, err)
		}
	}
	for address, want := range map[string]string{"": "https://node-a:10250", "10.0.0.7": "https://10.0.0.7:10250",
		"fd00::7": "https://[fd00::7]:10250", "10.0.0.7:20250": "https://10.0.0.7:20250"} {
		a := asking{address: address}
		if got := a.direct(&agent.Config{NodeName: "node-a", REST: &rest.Config{Host: "https://api:6443"}}).Host; got != want {
			t.Errorf("address %q: asks at %s, want %s", address, got, want)
		}
	}
}
