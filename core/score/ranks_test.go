package score_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
)

// term is a cost in which only one term is not 0. The terms are Tenon's, the most important first.
func term(at int, n int64) int64 {
	return n << [...]int{56, 48, 42, 18, 10, 0}[at]
}

func TestScoresOfCosts(t *testing.T) {
	own, one := score.Strategy{}, term(0, 1)
	for name, c := range map[string]struct {
		s           score.Strategy
		costs, want []int64
	}{
		"a single node":                {own, []int64{77}, []int64{100}},
		"a single node, and not known": {own, []int64{own.Unknown()}, []int64{100}},
		"equals":                       {own, []int64{one, one, one}, []int64{100, 100, 100}},
		"one NUMA node more":           {own, []int64{one, 2 * one}, []int64{100, 60}},
		"a term that counts less, too": {own, []int64{one + term(5, 900), 2 * one}, []int64{100, 60}},
		"every term": {own, []int64{one, one + term(1, 9), one + term(2, 9), one + term(3, 9)},
			[]int64{100, 40, 65, 85}},
		"many NUMA nodes are one step": {own, []int64{9 * one, one}, []int64{60, 100}},
		"what is dear squeezes nobody": {own, []int64{one, one + term(3, 5), one + term(5, 1), 60 * one},
			[]int64{100, 75, 90, 35}},
		"unknown nodes are last":        {own, []int64{one, own.Unknown(), 2 * one, own.Unknown()}, []int64{100, 0, 60, 0}},
		"more steps than there is room": {own, []int64{one, 2 * one, 3 * one, 4 * one}, []int64{100, 67, 34, 1}},
		"a scale of its own": {score.Strategy{Type: score.LeastAllocated}, []int64{27, 27, 100},
			[]int64{73, 73, 0}},
		"the same with others": {score.Strategy{Type: score.LeastAllocated}, []int64{27, 0}, []int64{73, 100}},
		"no nodes":             {own, nil, nil},
		"nobody is known to another way": {score.Strategy{Type: score.MostAllocated},
			[]int64{score.Strategy{Type: score.MostAllocated}.Unknown()}, []int64{0}},
	} {
		got := slices.Clone(c.costs)
		if c.s.Scores(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A hundred different costs get a hundred different scores in their order. With more costs, the better ones keep their
// scores.
func TestScoresKeepTheOrderOfCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
			return term(0, 1) + term(rapid.IntRange(0, 5).Draw(t, "term"), rapid.Int64Range(0, 60).Draw(t, "amount"))
		}), 1, 250).Draw(t, "costs")
		scores := slices.Clone(costs)
		score.Strategy{}.Scores(scores)
		ranks := slices.Compact(slices.Sorted(slices.Values(costs)))
		for i, c := range costs {
			at, _ := slices.BinarySearch(ranks, c)
			if at == 0 && scores[i] != score.Max {
				t.Fatalf("the cheapest scores %d", scores[i])
			}
			for j, d := range costs {
				if c == d && scores[i] != scores[j] || c < d && (scores[i] < scores[j] || at < 100 && scores[i] == scores[j]) {
					t.Fatalf("%d costs: cost %d scores %d, cost %d scores %d", len(ranks), c, scores[i], d, scores[j])
				}
			}
		}
	})
}

// Under every strategy, an exact node is preferred to an estimated one that is otherwise equal, and an estimated one to
// a node that aligns nothing.
func TestExactNodesArePreferredToEstimatedOnes(t *testing.T) {
	for _, typ := range allTypes {
		for _, text := range []string{"cpu=4 memory=512Mi", "cpu=8 memory=1Gi", "cpu=12 memory=1Gi"} {
			s, p := score.Strategy{Type: typ}, pod(t, text)
			u := node{machine: twin(8, "1Gi"), policy: place.BestEffort}.usage(t)
			v := place.Place(u, p)
			loose := place.NewUsage(u.Machine, place.Rules{})
			costs := []int64{s.Cost(u, p, v, false), s.Cost(u, p, v, true), s.Cost(loose, p, place.Place(loose, p), false)}
			if s.Scores(costs); costs[0] <= costs[1] || costs[1] <= costs[2] {
				t.Errorf("%v of %s: exact, estimated and loose score %v", typ, text, costs)
			}
		}
	}
}
