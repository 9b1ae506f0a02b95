package place_test

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// A processor with cores of one and of two threads (kubernetes/kubernetes issue 140495): if one thread of a core is
// reserved, the kubelet gives that thread to a container. If the whole core is reserved, or if all cores have equally
// many threads, it does not.
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

// No container gets the CPUs that HalfCores returns: the largest container that is admitted gets all CPUs except these
// and the reserved ones.
func TestHalfCoresAreLostToContainers(t *testing.T) {
	m := machineOfCores(t, "0,4", "1,5", "2,6", "3,7")
	single := machineOfCores(t, "0", "1", "2", "3")
	for _, c := range []struct {
		machine        *topo.Machine
		reserved, lost string
		whole, static  bool
	}{{m, "0", "4", true, true}, {m, "0-1", "4-5", true, true}, {m, "0,4", "", true, true}, {m, "", "", true, true},
		{m, "0,1,5", "4", true, true}, {m, "0", "", false, true}, {m, "0", "", true, false}, {single, "0", "", true, true}} {
		reserved, err := idset.Parse[idset.CPU](c.reserved)
		if err != nil {
			t.Fatal(err)
		}
		r := place.Rules{CPU: place.CPURules{Static: c.static, FullPCPUsOnly: c.whole, Reserved: reserved}}
		lost, a := r.HalfCores(c.machine)
		text := a.String()
		if lost.String() != c.lost || (text == "") != (c.lost == "") || strings.Contains(text, "1 CPUs") {
			t.Errorf("%+v: %s, %q", c, lost, text)
		}
		if !c.static {
			continue
		}
		most := 0
		for n := 1; n <= 8; n++ {
			pod := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{{Name: "c", MilliCPU: int64(n) * 1000}}}
			if place.Place(place.NewUsage(c.machine, r), pod).Fits() {
				most = n
			}
		}
		if want := c.machine.CPUs().Minus(reserved).Len() - lost.Len(); most != want {
			t.Errorf("%+v: a container gets at most %d CPUs, want %d", c, most, want)
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
