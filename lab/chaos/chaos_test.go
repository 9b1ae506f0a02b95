package chaos_test

import (
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/chaos"
)

var (
	duration = flag.Duration("chaos.for", 2*time.Minute, "how long rounds of chaos are begun")
	seed     = flag.Uint64("chaos.seed", 1, "seed of the actions; 0 draws one")
)

func TestMain(m *testing.M) {
	lab.MaybeChild()
	flag.Parse()
	os.Exit(m.Run())
}

// Whatever happens, the book is what the kubelets have, and nobody is refused or waits for nothing.
func TestChaos(t *testing.T) {
	began := time.Now()
	if *seed == 0 {
		*seed = uint64(began.UnixNano())
	}
	t.Logf("seed %d", *seed)
	o := chaos.Options{Seed: *seed, For: *duration, Say: func(line string) {
		t.Logf("%7.2fs  %s", time.Since(began).Seconds(), line)
	}}
	got, err := chaos.Run(t.Context(), o)
	for tries := 1 + int(o.For/(10*time.Minute)); errors.Is(err, chaos.ErrBroken) && len(got.Faults) == 0 && tries > 0; tries-- {
		t.Logf("once more, because of what is not Tenon's: after %d rounds, predictions %v, refusals %v: %v", got.Rounds, got.Outcomes, got.Refusals, err)
		if got.Rounds > 1 {
			o.Seed++ // the rest of the time with other actions
		}
		o.For = max(0, *duration-time.Since(began))
		got, err = chaos.Run(t.Context(), o)
	}
	if err != nil {
		t.Errorf("seed %d: %v", *seed, err)
	}
	for _, f := range got.Faults {
		t.Errorf("seed %d: %s", *seed, f)
	}
	t.Logf("seed %d: %d rounds, %d actions, %d pods, predictions %v, refusals %v", *seed, got.Rounds, got.Actions, got.Pods,
		got.Outcomes, got.Refusals)
	if got.Outcomes[ledger.Confirmed] == 0 {
		t.Error("no prediction was confirmed")
	}
}
