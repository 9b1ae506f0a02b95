package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Whatever is planned for the usual workload is carried out: all pods run again, and as many pods of each shape fit as
// the plan foresaw.
func TestUsualPlansAreCarriedOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(*rounds)*40*time.Second)
	defer cancel()
	s, tenon := newSets(ctx, t)
	plans, moves := 0, 0
	for k := range uint64(max(3, *rounds/4)) {
		r := rand.New(rand.NewPCG(*seed+k, 6))
		s.fill(ctx, t, r, fmt.Sprint("r", k), func() int { return 2 + r.IntN(6) })
		file, p := tenon.plan(ctx, t, "--usual", "--most", "4")
		if len(p.Moves) > 0 {
			plans, moves = plans+1, moves+len(p.Moves)
			out, errs, code := tenon.apply(ctx, t, file, func(*exec.Cmd) {})
			if t.Log(out); code != 0 {
				t.Errorf("defrag apply: exit code %d\n%s%s", code, out, errs)
			}
			s.runs(ctx, t, "")
			s.fits(ctx, t, tenon, p)
		}
		if t.Failed() {
			t.Fatalf("seed %d", *seed+k)
		}
		s.end(ctx, t, append([]string(nil), s.names...)...)
		s.free(ctx, t)
	}
	t.Logf("%d plans with %d moves", plans, moves)
	if plans == 0 {
		t.Error("no plan was carried out")
	}
}

// fits waits until as many pods of each usual shape fit as a plan foresaw.
func (s *sets) fits(ctx context.Context, t *testing.T, tenon commandFor, p planned) {
	t.Helper()
	wrong := ""
	if err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(context.Context) (bool, error) {
		_, now := tenon.plan(ctx, t, "--usual")
		fit := map[string]int{}
		for _, x := range now.Usual {
			fit[x.Shape] = x.Before
		}
		wrong = ""
		for _, x := range p.Usual {
			if fit[x.Shape] != x.After {
				wrong += fmt.Sprintf(" %d of %s, foreseen were %d, and before %d;", fit[x.Shape], x.Shape, x.After, x.Before)
			}
		}
		return wrong == "", nil // the nodes have reported
	}); err != nil {
		t.Errorf("there is room for%s", wrong)
	}
}
