package topo

import "testing"

// A hostile layout has many NUMA nodes: a few sets of them are found at once.
func TestSetsOfNUMANodesAreBounded(t *testing.T) {
	const limit = 16
	many := ^Mask(0)
	for _, c := range []struct {
		of      Mask
		k, want int
	}{{many, 32, limit}, {many, 1, limit}, {many, 64, 1}, {0b10111, 2, 6}, {0b101, 3, 0}, {0, 1, 0}} {
		got := c.of.Choose(c.k, limit)
		if len(got) != c.want {
			t.Errorf("%d of %d positions: %d sets, want %d", c.k, c.of.Len(), len(got), c.want)
		}
		seen := map[Mask]bool{}
		for _, mask := range got {
			if seen[mask] || mask.Len() != c.k || mask&^c.of != 0 {
				t.Errorf("%d of %d positions: set %b, again: %v", c.k, c.of.Len(), mask, seen[mask])
			}
			seen[mask] = true
		}
	}
}
