package evict

import (
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

func machine(t *testing.T) *topo.Machine {
	t.Helper()
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-15 memory 64Gi\nnuma 1 socket 1 cpus 16-31 memory 64Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Victims on one NUMA node form a group, alone and together with the victims that hold nothing on any NUMA node.
func TestGroupsAreTheVictimsOfNUMANodes(t *testing.T) {
	on := []topo.Mask{1, 2, 0, 3}
	for width, want := range map[int][][]int{
		0: {{0, 3}, {0, 2, 3}, {1, 3}, {1, 2, 3}},
		1: {{0, 3}, {0, 2, 3}, {1, 3}, {1, 2, 3}},
		2: {{0, 3}, {0, 2, 3}, {1, 3}, {1, 2, 3}, {0, 1, 3}, {0, 1, 2, 3}},
	} {
		if got := Groups(machine(t), on, width); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("width %d: groups %v, want %v", width, got, want)
		}
	}
}

// Half of the CPUs and a quarter of the memory are more than half of the CPUs alone.
func TestSizeAddsUpShares(t *testing.T) {
	set, err := idset.Parse[idset.CPU]("0-15")
	if err != nil {
		t.Fatal(err)
	}
	half := place.Holding{CPUs: set}
	if got := Size(machine(t), []place.Holding{half}); got != 500_000 {
		t.Errorf("half of the CPUs have size %d", got)
	}
	half.Memory = []place.Block{{Kind: "memory", NUMAs: 1, Bytes: 32 << 30}}
	if got := Size(machine(t), []place.Holding{half}); got != 750_000 {
		t.Errorf("half of the CPUs and a quarter of the memory have size %d", got)
	}
}
