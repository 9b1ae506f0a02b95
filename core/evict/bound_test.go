package evict

import "testing"

// TestChoosingCostsAreBounded: for a node of very many victims, the number of calls of Works and of queued sets is
// bounded. Beyond MaxVictims, Works is not called.
func TestChoosingCostsAreBounded(t *testing.T) {
	choose := func(n int) (asked int, ok bool) {
		p := Problem{Budgets: []int{n / 2}, Works: func(gone []int) bool {
			asked++
			return len(gone) >= 3*n/4 // no small set works, so the search tries all cheap ones
		}}
		for i := range n {
			p.Victims = append(p.Victims, Victim{Priority: int32(i % 3), Started: int64(i), Budgets: []int{0},
				Size: int64(i % 7)})
			p.Groups = append(p.Groups, []int{i, (i + 1) % n})
		}
		_, ok = Choose(p)
		return asked, ok
	}
	for _, n := range []int{2, Exhaustive, 110, MaxVictims} {
		asked, ok := choose(n)
		if most := maxTests + 4*n + 2; !ok || asked > most {
			t.Errorf("%d victims: chosen %v, Works was asked %d times, at most %d are allowed", n, ok, asked, most)
		}
		if allocated := testing.AllocsPerRun(1, func() { choose(n) }); allocated > 4*maxSteps {
			t.Errorf("%d victims: %.0f allocations", n, allocated)
		}
	}
	if asked, ok := choose(MaxVictims + 1); ok || asked > 0 {
		t.Errorf("%d victims: chosen %v, Works was asked %d times", MaxVictims+1, ok, asked)
	}
}
