package score

import (
	"slices"
	"testing"
)

// Over all pods fewer NUMA nodes count first, and then what is left of them.
func TestWaysToPlaceSeveralPods(t *testing.T) {
	const numa, damage = costNUMA, costDamage
	many := func(n int, cost int64) (out []int64) { return slices.Repeat([]int64{cost}, n) }
	for name, x := range map[string]struct {
		s    Strategy
		ways [][]int64 // the best first
	}{
		"one NUMA node fewer":      {Strategy{}, [][]int64{{numa + 900*damage, numa + 900*damage}, {numa, 2 * numa}}},
		"less damage in the mean":  {Strategy{}, [][]int64{{numa + damage, numa + damage}, {numa, numa + 3*damage}}},
		"hundreds of pods":         {Strategy{}, [][]int64{append(many(300, 2*numa), numa), many(301, 2*numa)}},
		"thousands of pods":        {Strategy{}, [][]int64{append(many(4999, 2*numa-1), numa), many(5000, 2*numa-1)}},
		"a node without report":    {Strategy{}, [][]int64{many(3, 2*numa), append(many(2, numa), costUnknown)}},
		"scheduler-plugins' terms": {Strategy{Type: LeastAllocated}, [][]int64{{10, 30}, {25, 25}}},
	} {
		if got := x.s.ScoresTogether(x.ways); got[0] <= got[1] || got[1] < 0 || got[0] > Max {
			t.Errorf("%s: scores %v", name, got)
		}
		if got := x.s.ScoresTogether([][]int64{x.ways[1], x.ways[1]}); got[0] != got[1] {
			t.Errorf("%s: equal ways score %v", name, got)
		}
	}
	if got := (Strategy{}).ScoresTogether([][]int64{nil, nil}); got[0] != Max || got[1] != Max {
		t.Errorf("pods that hold nothing score %v", got)
	}
}
