package topo

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/core/idset"
)

// MaxL3 is the largest number of an L3 group. It is large because arm64 firmware derives such numbers from addresses.
const MaxL3 = 1<<31 - 1

// nameL3s returns a name for every L3 group; the key is the group's number in the description. Groups are named by
// their lowest CPUs if these sort the groups as their numbers do. Otherwise they are named by their numbers.
func nameL3s(in []CoreSpec) map[int]idset.L3 {
	lowest := map[int]idset.L3{}
	for _, c := range in {
		if low := idset.L3(c.CPUs.Min()); !c.CPUs.Empty() {
			if old, ok := lowest[c.L3]; !ok || low < old {
				lowest[c.L3] = low
			}
		}
	}
	numbers := slices.Sorted(maps.Keys(lowest))
	if slices.IsSortedFunc(numbers, func(a, b int) int { return cmp.Compare(lowest[a], lowest[b]) }) {
		return lowest
	}
	for _, n := range numbers {
		lowest[n] = idset.L3(n)
	}
	return lowest
}
