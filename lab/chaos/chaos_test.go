package chaos_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/chaos"
)

var (
	duration = flag.Duration("chaos.for", 2*time.Minute, "how long rounds of chaos are begun")
	seed     = flag.Uint64("chaos.seed", 1, "seed of the actions; 0 draws one")
)

// gangs is whether pods come in gangs, too: if the release has them. All processes of the lab need the gates.
var gangs = lab.EnableGangs() == nil

func TestMain(m *testing.M) {
	lab.MaybeChild()
	flag.Parse()
	os.Exit(m.Run())
}

// Whatever happens, the ledger equals the kubelets' state, no pod is refused without a reason outside the scheduler's
// reach, and none waits that fits.
func TestChaos(t *testing.T) {
	began := time.Now()
	if *seed == 0 {
		*seed = uint64(began.UnixNano())
	}
	t.Logf("seed %d", *seed)
	o := chaos.Options{Seed: *seed, For: *duration, Gangs: gangs, Say: func(line string) {
		t.Logf("%7.2fs  %s", time.Since(began).Seconds(), line)
	}}
	got, err := chaos.Run(t.Context(), o)
	if err != nil {
		t.Errorf("seed %d: %v", *seed, err)
	}
	for _, f := range got.Faults {
		t.Errorf("seed %d: %s", *seed, f)
	}
	t.Logf("seed %d: %s", *seed, got.Table())
	if got.Outcomes[state.Confirmed] == 0 {
		t.Error("no prediction was confirmed")
	}
}
