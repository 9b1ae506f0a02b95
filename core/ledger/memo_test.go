package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A search that remembers where it was finds the same states in the same order as one that follows every order of
// admission, with fewer placements.
func TestASearchThatRemembersFindsTheSameStates(t *testing.T) {
	var searches, many, all, remembered int
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := beginOn(randomNode(t, r), append(randomPods(r), randomPods(r)...), 3)
		waits := map[int]<-chan struct{}{}
		for next := m.events(t, waits); len(next) > 0; next = m.events(t, waits) {
			next[r.IntN(len(next))]()
			a := m.book.nodes["n"]
			if a == nil || a.base == nil || a.turnedCount() < manyPods {
				continue
			}
			plain, quick := everyOrder(a, memo{}), everyOrder(a, newMemo())
			searches, all, remembered = searches+1, all+plain.effort, remembered+quick.effort
			if len(plain.found) > 1 {
				many++
			}
			if plain.refuses != quick.refuses || !slices.EqualFunc(plain.found, quick.found, (*nodeState).equal) {
				m.fail(t, "seed %d: %d states (refused %t), and %d of the search that remembers (refused %t)", seed,
					len(plain.found), plain.refuses, len(quick.found), quick.refuses)
			}
		}
	}
	t.Logf("%d searches, %d with several states: %d placements, %d if they remember", searches, many, all, remembered)
	if many < 100 || remembered > all {
		t.Errorf("%d searches with several states, %d placements of %d: want at least 100, and fewer placements", many,
			remembered, all)
	}
}

// everyOrder follows all orders without a bound.
func everyOrder(a *account, remember memo) search {
	s := a.newSearch()
	s.limits, s.memo = limits{states: 1 << 20, steps: 1 << 30, options: maxOptions}, remember
	s.reached = map[string][]*nodeState{}
	starts, _ := a.starts()
	for _, w := range starts {
		w.usage = s.memo.same(w.usage)
		s.follow(w, len(s.assumed))
	}
	return s
}
