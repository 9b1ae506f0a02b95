package v1alpha1

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// A busy large node stays far from what etcd takes, and from what thousands of watchers feel.
func TestLayoutOfALargeNodeIsSmall(t *testing.T) {
	text, err := os.ReadFile("../../lab/machines/epyc-nps4.txt")
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.ParseMachine(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var entries []ledger.Entry
	groups := map[int]place.MemoryGroup{}
	for i := range 8 {
		groups[i] = place.MemoryGroup{NUMAs: 1<<i | 1<<(i^1), Free: []place.Amount{{Kind: "memory", Bytes: 12345678901}}}
	}
	for i := range 110 {
		name := fmt.Sprintf("checkout-service-7d9f8b6c5d-%05d", i)
		entries = append(entries, ledger.Entry{Pod: ledger.PodID{UID: fmt.Sprintf("0b1c2d3e-4f50-6172-8394-%012d", i), Namespace: "production", Name: name},
			Source: ledger.Observed, Holdings: []place.Holding{{Container: "application",
				CPUs:   idset.Of(idset.CPU(i), idset.CPU(128+i)),
				Memory: []place.Block{{Kind: "memory", NUMAs: 1 << (i % 8), Bytes: 8 << 30}, {Kind: "hugepages-1Gi", NUMAs: 1 << (i % 8), Bytes: 1 << 30}}}}})
	}
	l := FromCore("a-node-of-a-cluster.example.com", m, place.Rules{}, entries, groups)
	d := Detail{MemoryKinds: map[idset.NUMA]string{7: "dax"}}
	for i := range 64 {
		d.Functions = append(d.Functions, Function{Address: fmt.Sprintf("0000:%02x:00.0", i), Class: "infiniband", ID: "15b3:1021",
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
		t.Errorf("memory of numa 7 is %q", got)
	}
	if _, err := l.Core(); err != nil {
		t.Error(err)
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
