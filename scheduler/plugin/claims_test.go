package plugin

import (
	"testing"

	"github.com/tenon-numa/tenon/core/topo"
)

// A hostile layout has many NUMA nodes: a few sets of them are tried, and found at once.
func TestSetsOfNUMANodesAreBounded(t *testing.T) {
	many := make([]int, 64)
	for i := range many {
		many[i] = i
	}
	for _, c := range []struct {
		positions []int
		k, want   int
	}{{many, 32, maxElsewhere}, {many, 1, maxElsewhere}, {many, 64, 1}, {many[:4], 2, 6}, {many[:2], 3, 0}, {nil, 1, 0}} {
		got := masksOf(c.positions, c.k, maxElsewhere)
		if len(got) != c.want {
			t.Errorf("%d of %d positions: %d sets, want %d", c.k, len(c.positions), len(got), c.want)
		}
		seen := map[topo.Mask]bool{}
		for _, mask := range got {
			if seen[mask] || mask.Len() != c.k {
				t.Errorf("%d of %d positions: set %b, again: %v", c.k, len(c.positions), mask, seen[mask])
			}
			seen[mask] = true
		}
	}
}
