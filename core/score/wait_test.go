package score

import "testing"

// A pod goes to the node with fewer pods before it, and among equal ones to the node where fewer of them wait
// themselves. But devices left short, or one more NUMA node, count more than any number of them.
func TestAPodGoesWhereFewerAreBeforeIt(t *testing.T) {
	s := Strategy{Type: Tenon}
	before := s.Wait(0, 0)
	if before != 0 {
		t.Errorf("waiting for no pod costs %d", before)
	}
	for _, pods := range []int{1, 2, 3, 4, 6, 8, 16, 40, 100} {
		cost := s.Wait(pods, 0)
		if cost <= before || cost >= costShort {
			t.Errorf("%d pods cost %d, after %d; the next term begins at %d", pods, cost, before, costShort)
		}
		if waiting := s.Wait(pods, 1); waiting < cost || waiting == cost && pods < 8 {
			t.Errorf("%d pods cost %d, and %d where one of them waits", pods, cost, waiting)
		}
		before = cost
	}
	if most := s.Wait(1<<30, 1<<30); most >= costShort {
		t.Errorf("pods without number cost %d, more than %d", most, costShort)
	}
}
