package numatopo_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/guests/numatopo"
)

const gpus = "nvidia.com/gpu"

// node has two sockets with two cores of two CPUs each, and GPUs: one on each NUMA node, one without, one unhealthy.
func node(t *testing.T) *state.Node {
	t.Helper()
	m, err := topo.ParseMachine(`
numa 0 socket 0 cpus 0-1/4-5 memory 32Gi
numa 8 socket 1 cpus 2-3/6-7 memory 32Gi
device nvidia.com/gpu a numa 8
device nvidia.com/gpu b numa none
device nvidia.com/gpu c numa 0
device nvidia.com/gpu d numa 8 unhealthy
device nvidia.com/gpu e numa 0,8
device example.com/nic n numa 0
`)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Topology: place.TopologyRules{Policy: place.Restricted},
		CPU:    place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](3, 7)},
		Memory: place.MemoryRules{Static: true, Reserved: []place.Reserved{{NUMA: 0, Kind: "memory", Bytes: 1 << 30}}}}
	return &state.Node{Name: "n", Machine: m, Rules: r, Usage: place.NewUsage(m, r)}
}

func TestNumatopology(t *testing.T) {
	s := numatopo.FromCore(node(t), gpus)
	if s.Policies["CPUManagerPolicy"] != "static" || s.Policies["TopologyManagerPolicy"] != "restricted" {
		t.Errorf("policies %v", s.Policies)
	}
	if got, want := s.Numares["cpu"], (numatopo.Resource{Allocatable: "0-2,4-6", Capacity: 8}); got != want {
		t.Errorf("cpu is %v, want %v", got, want)
	}
	if _, guess := s.ResReserved["cpu"]; guess || s.ResReserved["memory"] != "1073741824" {
		t.Errorf("reserved %v: an amount of CPUs makes readers guess which", s.ResReserved)
	}
	for id, want := range map[string]numatopo.CPU{
		"5": {NUMA: 0, Socket: 0, Core: 1},
		"6": {NUMA: 8, Socket: 1, Core: 2},
	} {
		if got := s.CPUDetail[id]; got != want {
			t.Errorf("CPU %s is at %v, want %v", id, got, want)
		}
	}
}

// A device whose NUMA node is unknown, or not one, is not said to be on NUMA node 0: it is left out.
func TestDevices(t *testing.T) {
	s := numatopo.FromCore(node(t), gpus)
	want := map[string]numatopo.GPU{"0": {NUMA: 8}, "2": {NUMA: 0}, "3": {NUMA: 8}}
	if len(s.GPUDetail) != len(want) {
		t.Errorf("GPUs %v, want %v", s.GPUDetail, want)
	}
	for id, at := range want {
		if s.GPUDetail[id] != at {
			t.Errorf("GPU %s is at %v, want %v", id, s.GPUDetail[id], at)
		}
	}
	if got, want := s.Numares[gpus], (numatopo.Resource{Allocatable: "0,2", Capacity: 3}); got != want {
		t.Errorf("GPUs are %v, want %v", got, want)
	}
	if s := numatopo.FromCore(node(t), "example.com/nic"); s.Numares["example.com/nic"].Allocatable != "0" {
		t.Errorf("a resource of another name: %v", s.Numares)
	}
	for _, name := range []string{"", "example.com/none"} {
		if s := numatopo.FromCore(node(t), name); s.GPUDetail != nil || len(s.Numares) != 1 {
			t.Errorf("resource %q: %v, %v", name, s.GPUDetail, s.Numares)
		}
	}
}

// What a container holds is not free.
func TestHeldIsNotFree(t *testing.T) {
	pod := &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{
		{Name: "main", MilliCPU: 2000, Devices: []place.Count{{Resource: gpus, N: 1}}}}}
	n, ok := node(t).With(state.PodID{UID: "u", Name: "p"}, pod)
	if !ok {
		t.Fatal("the pod does not fit")
	}
	s := numatopo.FromCore(n, gpus)
	cpus, err := idset.Parse[idset.CPU](s.Numares["cpu"].Allocatable)
	if err != nil || cpus.Len() != 4 {
		t.Errorf("free CPUs %v, error %v; the pod holds 2 of 6", cpus, err)
	}
}
