package place_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// A processor with cores of one and of two threads (kubernetes/kubernetes issue 140495): with one thread of a core
// reserved the kubelet gives it out, with the whole core it does not. Nor does it on a machine whose cores are alike.
func TestKubeletsThatGiveOutReservedCPUs(t *testing.T) {
	mixed := machineOfCores(t, "0-1", "2-3", "4", "5", "6", "7")
	alike := machineOfCores(t, "0-1", "2-3", "4-5", "6-7")
	for _, c := range []struct {
		machine         *topo.Machine
		reserved, given string
	}{{mixed, "0", "0"}, {mixed, "0-1", ""}, {alike, "0", ""}} {
		reserved, err := idset.Parse[idset.CPU](c.reserved)
		if err != nil {
			t.Fatal(err)
		}
		r := place.Rules{CPU: place.CPURules{Static: true, Reserved: reserved}}
		n, given, ok := r.GivesReserved(c.machine)
		if ok != (c.given != "") || given.String() != c.given {
			t.Errorf("with %s reserved a container of %d CPUs gets %s, %t; want %q", c.reserved, n, given, ok, c.given)
		}
	}
}

func machineOfCores(t *testing.T, cores ...string) *topo.Machine {
	t.Helper()
	spec := topo.Spec{NUMAs: []topo.NUMA{{ID: 0, Bytes: 64 << 30}}}
	for _, list := range cores {
		cpus, err := idset.Parse[idset.CPU](list)
		if err != nil {
			t.Fatal(err)
		}
		spec.Cores = append(spec.Cores, topo.CoreSpec{CPUs: cpus})
	}
	m, err := topo.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
