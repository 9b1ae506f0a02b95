package score

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/topo"
)

// described is a machine of n NUMA nodes with the distances that a function returns.
func described(t *testing.T, n int, told func(i, j int) int) *topo.Machine {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "numa %d cpus %d memory 1Gi\n", 2*i, i)
	}
	for i := range n {
		b.WriteString("distances")
		for j := range n {
			fmt.Fprintf(&b, " %d", told(i, j))
		}
		b.WriteByte('\n')
	}
	m, err := topo.ParseMachine(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// For trees of distances, closest finds the minimum without enumeration. For any matrix it returns a sum that some set
// has, and the minimum for pairs.
func TestClosestAgreesWithEnumeration(t *testing.T) {
	tree := func(i, j int) int {
		switch {
		case i == j:
			return 10
		case i/2 == j/2:
			return 12
		case i/4 == j/4:
			return 16
		}
		return 32
	}
	twisted := func(i, j int) int { // may differ in the two directions
		if i == j {
			return 10
		}
		return 11 + (7*i+13*j+i*j)%23
	}
	for name, c := range map[string]struct {
		told  func(i, j int) int
		exact int // up to this many NUMA nodes
	}{"tree": {tree, 8}, "twisted": {twisted, 2}} {
		m := described(t, 8, c.told)
		least := map[int]int64{}
		for mask := topo.Mask(1); mask <= m.All(); mask++ {
			if s, ok := least[mask.Len()]; !ok || distanceSum(m, mask) < s {
				least[mask.Len()] = distanceSum(m, mask)
			}
		}
		for n := 1; n <= 8; n++ {
			got := leastSum(m, topo.Mask(1)<<uint(n)-1)
			if got < least[n] || (n <= c.exact && got != least[n]) {
				t.Errorf("%s: the closest %d NUMA nodes have the sum %d, the least is %d", name, n, got, least[n])
			}
		}
	}
}
