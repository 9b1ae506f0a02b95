package room

import (
	"testing"
	"testing/synctest"
	"time"
)

// Where successors are held back, all pods are evicted before that ends, however long budgets may refuse.
func TestEvictionsEndBeforeTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			hold, within, want time.Duration // hold is 0 where nothing is held back
			late               bool
		}{
			"nothing is held back": {0, 10 * time.Minute, 10 * time.Minute, false},
			"the hold ends later":  {9 * time.Minute, time.Minute, time.Minute, false},
			"the hold ends before": {6 * time.Minute, 10 * time.Minute, 6*time.Minute - holdAfter, false},
			"the hold ends now":    {holdAfter, 10 * time.Minute, 0, true},
			"the hold has ended":   {-time.Minute, 10 * time.Minute, 0, true},
		} {
			x := &carrying{Options: Options{EvictWithin: c.within}}
			if c.hold != 0 {
				x.heldUntil = time.Now().Add(c.hold)
			}
			if got, err := x.evictWithin(); got != c.want || (err != nil) != c.late {
				t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
			}
		}
	})
}
