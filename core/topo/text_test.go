package topo_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/topo"
)

func TestParseMachine(t *testing.T) {
	m, err := topo.ParseMachine(`
# Two numas with holes in their ids, one without CPUs.
numa 8 socket 1 cpus 8-9/10-11 l3 2 memory 4Gi hugepages-2Mi 512 hugepages-1Gi 1
numa 0 socket 0 cpus 0-3 memory 2Gi
numa 40 memory 1Gi
distances 10 20 30
distances 20 10 30
distances 30 30 10
device acme.com/gpu a,b numa 0,8 unhealthy
device acme.com/gpu c numa none
device acme.com/nic 0000:17:00.1 numa 8 root pci0000:17
device acme.com/nic 0000:17:00.2 numa 8 root pci0000:17 unhealthy
`)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.CPUs().String(); got != "0-3,8-11" {
		t.Errorf("CPUs %s", got)
	}
	if ids := m.IDs(m.All()); len(ids) != 3 || ids[0] != 0 || ids[1] != 8 || ids[2] != 40 {
		t.Errorf("numas %v", ids)
	}
	if at, _ := m.Position(8); m.NUMAs()[at].Capacity(topo.Memory) != 2<<30 ||
		m.NUMAs()[at].Capacity("hugepages-2Mi") != 1<<30 {
		t.Errorf("numa 8 is %+v", m.NUMAs()[at])
	}
	if c, ok := m.CPU(11); !ok || c.Core != 9 || c.L3 != 9 || c.Socket != 1 || c.NUMA != 1 {
		t.Errorf("cpu 11 is %+v", c)
	}
	if r, ok := m.Resource("acme.com/gpu"); !ok || len(r.Devices) != 3 || r.Devices[0].NUMAs != 3 ||
		!r.Devices[1].Unhealthy || r.Devices[2].NUMAs != 0 {
		t.Errorf("devices %+v", r)
	}
	r, _ := m.Resource("acme.com/nic")
	if a, b := r.Device("0000:17:00.1"), r.Device("0000:17:00.2"); a.Root != "pci0000:17" || a.Unhealthy ||
		b.Root != a.Root || !b.Unhealthy {
		t.Errorf("devices %+v", r)
	}
	if d := r.Device("other"); d.ID != "" || d.NUMAs != 0 {
		t.Errorf("a device that is not there is %+v", d)
	}
}

func TestParseMachineRefuses(t *testing.T) {
	const head = "numa 0 cpus 0-3 memory 1Gi\n"
	for text, want := range map[string]string{
		"":                                         "no NUMA node",
		"numa 0":                                   "no CPU",
		"numa 0 cpus 0 cpus":                       "line 1: numa: want an id and then pairs",
		"numa -1 cpus 0":                           "not a number",
		"numa 99999 cpus 0":                        "not a number",
		head + "numa 0 cpus 4":                     "named twice",
		head + "numa 1 cpus 3":                     "cpu 3 is in NUMA node 0 and in NUMA node 1",
		head + "numa 1 cpus 4-5/6":                 "differ in length",
		head + "numa 1 cpus 4-6 l3 2":              "cannot be cut",
		head + "numa 1 l3 0 cpus 4":                "cannot be cut",
		head + "numa 1 memory 2Pi":                 "not a size",
		head + "numa 1 memory 99999999Ti":          "not a size",
		head + "numa 1 memory 1Gi hugepages-1Gi 2": "hugepages take",
		head + "numa 1 memory 1Gi hugepages-2Mi 1 hugepages-2Mi 1": "named twice",
		head +
			"numa 1 memory 1Gi memory-kind tape": `memory kind "tape" is not gpu, dax or movable`,
		head + "distances 10 20":                                                 "distances for",
		head + "distances 10\ndistances 10":                                      "2 lines of distances for 1 NUMA nodes",
		head + "distances 99999":                                                 "not a number",
		head + "device acme.com/gpu a numa 1":                                    "machine has no NUMA node 1",
		head + "device acme.com/gpu a":                                           "want RESOURCE IDS numa LIST",
		head + "device acme.com/gpu a numa 0 root":                               "want RESOURCE IDS numa LIST [root NAME]",
		head + "device acme.com/gpu a numa 0 unhealthy root r":                   "want RESOURCE IDS numa LIST [root NAME]",
		head + "device acme.com/gpu a numa 0 root pci" + strings.Repeat("0", 30): "PCI root of 33 bytes",
		head + "device acme.com/gpu a,a numa 0":                                  "named twice",
		head + "device acme.com/gpu , numa none":                                 "device name of 0 bytes",
		head + "magic":                                                           "line 2: unknown word \"magic\"",
		strings.Repeat("# x\n", 10001):                                           "more than 10000 lines",
	} {
		_, err := topo.ParseMachine(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text[:min(len(text), 60)], err, want)
		}
	}
}

func FuzzParseMachine(f *testing.F) {
	f.Add("numa 8 socket 1 cpus 8-9/10-11 l3 2 memory 4Gi hugepages-2Mi 512\nnuma 0 cpus 0\ndistances 10 20\n" +
		"distances 20 10\n" +
		"device acme.com/gpu a,b numa 0,8 unhealthy # why\ndevice acme.com/nic x numa none root pci0000:00\nsource here")
	f.Add("numa 0 cpus 0-4095")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := topo.ParseMachine(text)
		if err != nil {
			return
		}
		again, err := topo.New(m.Spec())
		if err != nil {
			t.Fatalf("its own description is refused: %v", err)
		}
		if !reflect.DeepEqual(again.Spec(), m.Spec()) {
			t.Fatalf("described as %+v, then as %+v", m.Spec(), again.Spec())
		}
		for i, n := range m.NUMAs() {
			if at, ok := m.Position(n.ID); !ok || at != i {
				t.Fatalf("numa %d is at %d, not at %d", n.ID, at, i)
			}
			for _, kind := range m.Kinds() {
				if n.Capacity(kind) < 0 {
					t.Fatalf("numa %d has %d of %s", n.ID, n.Capacity(kind), kind)
				}
			}
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"0", "4096", "64Gi", "1Pi", "-1", "1.5Gi", "9223372036854775807", "1024Ti"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := topo.ParseBytes(s)
		if err != nil {
			return
		}
		if back, err := topo.ParseBytes(topo.FormatBytes(n)); err != nil || back != n || n < 0 || n > topo.MaxBytes {
			t.Fatalf("%q is %d, written as %s, read as %d (%v)", s, n, topo.FormatBytes(n), back, err)
		}
	})
}

// Whoever prints a machine gets its size in one line, and not its fields.
func TestMachinesPrintInOneLine(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-3/4-7 memory 4Gi\nnuma 1 memory 1536Mi\n" +
		"device acme.com/gpu a,b numa 0\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = "1 socket, 2 NUMA nodes, 4 cores, 8 CPUs, 5.5Gi, 2 acme.com/gpu"
	if got := fmt.Sprintf("%v", m); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var none *topo.Machine
	if got := fmt.Sprint(none); got != "no machine" {
		t.Errorf("no machine prints %q", got)
	}
}
