package v1alpha1

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
)

// The layout of a busy large node stays far below etcd's limit, and small enough for thousands of watchers.
func TestLayoutOfALargeNodeIsSmall(t *testing.T) {
	text, err := os.ReadFile("../../lab/machines/epyc-nps4.txt")
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.ParseMachine(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var entries []state.Entry
	groups := map[int]place.MemoryGroup{}
	for i := range 8 {
		groups[i] = place.MemoryGroup{NUMAs: 1<<i | 1<<(i^1), Free: []place.Amount{{Kind: "memory", Bytes: 12345678901}}}
	}
	for i := range 110 {
		name := fmt.Sprintf("checkout-service-7d9f8b6c5d-%05d", i)
		entries = append(entries, state.Entry{Pod: state.PodID{UID: fmt.Sprintf("0b1c2d3e-4f50-6172-8394-%012d", i),
			Namespace: "production", Name: name},
			Source: state.Observed, Holdings: []place.Holding{{Container: "application",
				CPUs: idset.Of(idset.CPU(i), idset.CPU(128+i)),
				Memory: []place.Block{{Kind: "memory", NUMAs: 1 << (i % 8), Bytes: 8 << 30},
					{Kind: "hugepages-1Gi", NUMAs: 1 << (i % 8), Bytes: 1 << 30}}}}})
	}
	l := FromCore("a-node-of-a-cluster.example.com", m, place.Rules{}, entries, groups)
	d := Detail{MemoryKinds: map[idset.NUMA]string{7: "dax"}}
	for i := range 64 {
		d.Functions = append(d.Functions, Function{Address: fmt.Sprintf("0000:%02x:00.0", i), Class: "infiniband",
			ID:     "15b3:1021",
			Driver: "mlx5_core", NUMAs: "7", Virtual: 64, VirtualDriver: "vfio-pci"})
	}
	l.Describe(d)
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 64<<10 {
		t.Errorf("%d bytes", len(data))
	}
	if got := l.Machine.NUMAs[7].MemoryKind; got != "dax" || l.Machine.NUMAs[6].MemoryKind != "" {
		t.Errorf("memory of NUMA node 7 is %q", got)
	}
	if _, err := l.Core(); err != nil {
		t.Error(err)
	}
}

// Readers of a layout get the known PCI roots of devices; unknown ones stay unknown.
func TestRootsOfDevices(t *testing.T) {
	m, err := topo.ParseMachine("numa 0 cpus 0-3\nnuma 1 cpus 4-7\ndevice acme.com/gpu GPU-7 numa 0\n" +
		"device acme.com/nic 0000:17:00.1,0000:2A:00.1,0000:17:00.2,0000:99:00.0 numa 0\n" +
		"device acme.com/nic 0000:c1:00.0 numa 1 unhealthy")
	if err != nil {
		t.Fatal(err)
	}
	l := FromCore("n", m, place.Rules{}, nil, nil)
	l.Describe(Detail{Roots: map[string]string{"0000:17:00.1": "pci0000:16", "0000:17:00.2": "pci0000:16",
		"0000:2a:00.1": "pci0000:29", "0000:c1:00.0": "pci0000:c0"}})
	if n := len(l.Machine.Devices[1].Groups); n != 4 {
		t.Errorf("%d groups: %+v", n, l.Machine.Devices[1].Groups)
	}
	back, err := l.Core()
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"GPU-7": "", "0000:17:00.1": "pci0000:16", "0000:17:00.2": "pci0000:16",
		"0000:2A:00.1": "pci0000:29", "0000:99:00.0": "", "0000:c1:00.0": "pci0000:c0"} {
		for _, r := range back.Machine.Resources() {
			if d := r.Device(id); d.ID != "" && d.Root != want {
				t.Errorf("device %s has root %q, want %q", id, d.Root, want)
			}
		}
	}
	again := FromCore("n", back.Machine, place.Rules{}, nil, nil)
	if !reflect.DeepEqual(again.Machine.Devices, l.Machine.Devices) {
		t.Errorf("published as %+v, then as %+v", l.Machine.Devices, again.Machine.Devices)
	}
	l.Machine.Devices[1].Groups[0].Root = strings.Repeat("x", 33)
	if _, err := l.Core(); err == nil || !strings.Contains(err.Error(), "PCI root of 33 bytes") {
		t.Errorf("error %v", err)
	}
}

// What a kernel says may be long, and may have signs that a definition does not take.
func TestOdditiesAreBounded(t *testing.T) {
	l := NodeLayout{}
	in := make([]Oddity, MaxOddities+3)
	for i := range in {
		in[i] = Oddity{"odd-distances", strings.Repeat("\x1b\u00e4", MaxMessage)}
	}
	l.Describe(Detail{Oddities: in})
	if n := len(l.Machine.Oddities); n != MaxOddities {
		t.Errorf("%d oddities, want %d", n, MaxOddities)
	}
	if err := checkOddities(l.Machine.Oddities); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][]Oddity{in[:1], make([]Oddity, 1), append(l.Machine.Oddities, l.Machine.Oddities[0])} {
		if checkOddities(wrong) == nil {
			t.Errorf("%.80v are taken", wrong)
		}
	}
}

func TestFunctionsAreBounded(t *testing.T) {
	l := NodeLayout{}
	l.Describe(Detail{Functions: make([]Function, MaxFunctions+3)})
	if n := len(l.Machine.Functions); n != MaxFunctions || l.Machine.FunctionsOmitted != 3 {
		t.Errorf("%d functions, %d omitted", n, l.Machine.FunctionsOmitted)
	}
	for _, c := range []struct {
		in   []Function
		want string
	}{
		{make([]Function, MaxFunctions+1), "functions"},
		{[]Function{{NUMAs: "x"}}, "numas"},
		{[]Function{{Driver: strings.Repeat("x", 65)}}, "65 bytes"},
	} {
		m := Machine{NUMAs: []NUMA{{ID: 0}}, CPUs: []CPUGroup{{CPUs: []IDList{"0"}}}, Functions: c.in}
		if _, err := m.core(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d functions: error %v does not say %s", len(c.in), err, c.want)
		}
	}
}
