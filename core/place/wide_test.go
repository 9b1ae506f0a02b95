package place

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/topo"
)

// TestWideMemoryAgreesWithTables: the search without tables of all masks finds the memory manager's choice too.
func TestWideMemoryAgreesWithTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := plannedMachine(t)
		u := NewUsage(m, Rules{Memory: MemoryRules{Static: true}})
		for range rapid.IntRange(0, 4).Draw(t, "holdings") {
			u = u.Hold(plannedHolding(t, m))
		}
		a := admission{u: u, pod: &Pod{QoS: Guaranteed}}
		for range rapid.IntRange(0, 2).Draw(t, "left by init containers") {
			mask := topo.Mask(rapid.Uint64Range(1, uint64(m.All())).Draw(t, "left on"))
			bytes := rapid.Int64Range(1, 6).Draw(t, "left") << 30
			a.ownUsage()
			a.u.assign(topo.Memory, mask, bytes)
			a.spare.memory = map[memoryKey]int64{{mask, topo.Memory}: bytes}
		}
		c := Container{Memory: []Amount{{Kind: topo.Memory, Bytes: rapid.Int64Range(0, 40).Draw(t, "memory") << 30}}}
		if rapid.Bool().Draw(t, "pages") {
			c.Memory = append(c.Memory, Amount{Kind: "hugepages-1Gi",
				Bytes: rapid.Int64Range(0, 8).Draw(t, "pages wanted") << 30})
		}
		contains := topo.Mask(0)
		if rapid.Bool().Draw(t, "widen") {
			contains = topo.Mask(rapid.Uint64Range(0, uint64(m.All())).Draw(t, "contains"))
		}
		want, wantOK := a.ownMask(&c, contains)
		got, ok := a.wideMask(&c, contains)
		if wantOK = wantOK && want.mask != 0; ok != wantOK || ok && got != want {
			t.Fatalf("%v containing %b: got %+v %v, tables say %+v %v", c.Memory, contains, got, ok, want, wantOK)
		}
	})
}
