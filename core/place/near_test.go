package place

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/topo"
)

// TestWithinTriesEverySet: for up to six kinds of devices that are on several NUMA nodes, within finds the best choice
// of a NUMA node for each.
func TestWithinTriesEverySet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "NUMA nodes")
		var masks []topo.Mask
		for range rapid.IntRange(0, maxShared).Draw(t, "masks") {
			m := topo.Mask(rapid.Uint64Range(0, 1<<n-1).Draw(t, "mask"))
			masks = append(masks, m)
			if rapid.Bool().Draw(t, "twice") {
				masks = append(masks, m)
			}
		}
		fewest := n
		for set := range topo.Mask(1) << n {
			all := true
			for _, m := range masks {
				all = all && (m == 0 || m&set != 0)
			}
			if all {
				fewest = min(fewest, set.Len())
			}
		}
		for most := range n + 1 {
			if got := within(masks, most); got != (most >= fewest) {
				t.Fatalf("%b within %d: %v, the fewest are %d", masks, most, got, fewest)
			}
		}
	})
}
