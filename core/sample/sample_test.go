package sample

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// upward yields the slots from one slot on.
func upward(slots []int) func(int) iter.Seq[int] {
	return func(from int) iter.Seq[int] {
		i, _ := slices.BinarySearch(slots, from)
		return slices.Values(slots[i:])
	}
}

// A sample contains the cheapest slots as one half, has no slot twice, and is as large as possible up to Size.
func TestASampleHasTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SliceOfNDistinct(rapid.IntRange(0, 2000), 0, 600, rapid.ID[int]).Draw(t, "slots")
		slices.Sort(slots)
		costs := map[int]int64{}
		for _, s := range slots {
			if rapid.Bool().Draw(t, "known") {
				costs[s] = rapid.Int64Range(0, 50).Draw(t, "cost")
			}
		}
		got, _ := Of(maps.All(costs), upward(slots), rapid.IntRange(0, 2000).Draw(t, "next"))
		if want := min(len(slots), Size); len(got) != want {
			t.Fatalf("%d slots, want %d", len(got), want)
		}
		has := map[int]bool{}
		for _, s := range got {
			if _, ok := slices.BinarySearch(slots, s); !ok || has[s] {
				t.Fatalf("slot %d is not one that fits, or is there twice", s)
			}
			has[s] = true
		}
		byCost := slices.SortedFunc(maps.Keys(costs), func(a, b int) int { return cmp.Compare(costs[a], costs[b]) })
		for _, s := range byCost[:min(len(byCost), Size/2)] {
			last := byCost[min(len(byCost), Size/2)-1]
			if !has[s] && costs[s] < costs[last] {
				t.Fatalf("slot %d of cost %d is left out", s, costs[s])
			}
		}
	})
}

// Successive samples name every node that fits, even if few costs are known.
func TestEveryNodeHasItsTurn(t *testing.T) {
	slots := make([]int, 1050)
	for i := range slots {
		slots[i] = 2 * i
	}
	seen, next := map[int]bool{}, 0
	for range 6 {
		var got []int
		got, next = Of(maps.All(map[int]int64{}), upward(slots), next)
		for _, s := range got {
			seen[s] = true
		}
	}
	if len(seen) != len(slots) {
		t.Errorf("%d of %d nodes were named by six samples of %d", len(seen), len(slots), Size)
	}
}

// In a small cluster all nodes are asked unless few fit; in a large one few are named.
func TestNamingSavesWork(t *testing.T) {
	for _, c := range []struct {
		fit, all   int
		every, few bool
	}{
		{100, 100, false, false}, {90, 100, false, false}, {10, 100, true, false},
		{500, 500, false, true}, {100, 5000, true, false}, {5000, 5000, false, true}, {2500, 5000, false, true},
	} {
		if a, s := NamesAll(c.fit, c.all, 0), NamesSome(c.fit, c.all, 0); a != c.every || s != c.few {
			t.Errorf("%d of %d nodes fit: all are named %t, a sample %t; want %t, %t", c.fit, c.all, a, s, c.every, c.few)
		}
	}
}

// Where few nodes have what a pod requests, these are named, unless kube-scheduler would soon have filtered all nodes.
func TestNamingTheFewThatServeSavesWork(t *testing.T) {
	for _, c := range []struct {
		few, all int
		want     bool
	}{{0, 5000, false}, {3, 5000, true}, {150, 5000, true}, {30, 100, false}, {3, 100, true}} {
		if got := NamesFew(c.few, c.all, 0); got != c.want {
			t.Errorf("%d of %d nodes: named %t, want %t", c.few, c.all, got, c.want)
		}
	}
}
