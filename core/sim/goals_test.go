package sim

import (
	"strings"
	"testing"
)

// Properties that users are promised, at sizes that a test can afford.

func script(t testing.TB, name string) *Script {
	t.Helper()
	text, ok := Text(name)
	if !ok {
		t.Fatalf("no trace %s", name)
	}
	s, err := Parse(name, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// If a job of four or eight GPUs finds no node, no other placement of the present jobs would have left one: they need
// too many NUMA nodes or whole machines in any placement.
func TestGPUJobsWaitOnlyWithoutRoom(t *testing.T) {
	s := script(t, "gpu")
	waited := 0
	for seed := uint64(1); seed <= 10; seed++ {
		tr, err := s.Trace(50, seed)
		if err != nil {
			t.Fatal(err)
		}
		r := newReplay(tr, contender(t, "Tenon"), Options{Seed: seed, Stay: true})
		r.hook = func(r *replay) {
			pod := r.tally.Pods - 1
			shape := tr.Shapes[tr.Pods[pod].Shape].Name
			if r.pods[pod].node >= 0 {
				return
			}
			waited++
			var n [9]int // placed pods by GPUs
			for i := range r.pods {
				if i < r.tally.Pods && r.pods[i].node >= 0 {
					n[gpusOf(tr, i)]++
				}
			}
			numas := 2*n[8] + n[4] + (2*n[2]+n[1]+3)/4
			free := 2*tr.Machines() - numas
			if shape == "four" && free >= 1 || shape == "eight" && free >= 2 {
				t.Errorf("seed %d: job %d of shape %s waits, and %d NUMA nodes could be free", seed, pod, shape, free)
			}
		}
		if err := r.run(); err != nil {
			t.Fatal(err)
		}
		if got := r.finish(); got.Given != got.Capacity {
			t.Errorf("seed %d: %d of %d GPUs are given", seed, got.Given, got.Capacity)
		}
	}
	if waited == 0 {
		t.Error("no job waited: the test shows nothing")
	}
}

func gpusOf(t *Trace, pod int) int64 {
	return t.Shapes[t.Pods[pod].Shape].Pod.Containers[0].Devices[0].N
}

// Tenon is never refused, gives out most, and its pods wait least.
func TestTenonPacksBest(t *testing.T) {
	for _, c := range []struct {
		trace    string
		machines int
		first    bool // it also places most until the first pod waits
	}{{"gpu", 60, true}, {"telco", 30, true}, {"alibaba", 100, false}} {
		got, err := Compare(script(t, c.trace), Settings{Machines: c.machines, Seed: 1, Runs: 3})
		if err != nil {
			t.Fatal(err)
		}
		ours := got.Columns[0]
		if ours.Stay.Refused+ours.Churn.Refused != 0 {
			t.Errorf("%s: Tenon was refused %d times", c.trace, ours.Stay.Refused+ours.Churn.Refused)
		}
		for _, k := range got.Columns[1:] {
			if c.first && k.Stay.First > ours.Stay.First {
				t.Errorf("%s: %q places %d pods until the first waits, Tenon %d", c.trace, k.Contender, k.Stay.First,
					ours.Stay.First)
			}
			if k.Stay.Given > ours.Stay.Given {
				t.Errorf("%s: %q gives out %d of %s, Tenon %d", c.trace, k.Contender, k.Stay.Given, got.Scarce, ours.Stay.Given)
			}
			if c.first && k.Churn.Wait < ours.Churn.Wait {
				t.Errorf("%s: pods wait for %d s under %q, for %d s under Tenon", c.trace, k.Churn.Wait, k.Contender,
					ours.Churn.Wait)
			}
		}
		for _, k := range got.Columns {
			if k.Contender == KubeLeast && k.Stay.Refused+k.Churn.Refused == 0 {
				t.Errorf("%s: no kubelet refused a pod of %s: the trace shows nothing", c.trace, k.Contender)
			}
		}
	}
}

// If all pods come at once, before a mix is known, Tenon places more of them than all others over thirty orders of
// arrival, and in all but three of them singly.
func TestAllPodsAtOnce(t *testing.T) {
	got, err := Compare(script(t, Demo), Settings{Seed: 1, Runs: 30})
	if err != nil {
		t.Fatal(err)
	}
	ours := got.Columns[0].Stay
	if ours.Refused != 0 || 10*ours.Placed < 30*712 {
		t.Errorf("Tenon places %d of %d pods, with %d refusals", ours.Placed, ours.Pods, ours.Refused)
	}
	for _, k := range got.Columns[1:] {
		if 10*k.Stay.Placed > 10*ours.Placed-30*5 {
			t.Errorf("%q places %d pods, Tenon %d: less than half a pod more in each run", k.Contender,
				k.Stay.Placed, ours.Placed)
		}
	}
	for seed := uint64(1); seed <= 30; seed++ {
		tr, err := script(t, Demo).Trace(0, seed)
		if err != nil {
			t.Fatal(err)
		}
		if g := tally(t, tr, "Tenon", Options{Seed: seed, Stay: true}); g.Placed < g.Pods-3 {
			t.Errorf("order %d: %d of %d pods are placed", seed, g.Placed, g.Pods)
		}
	}
}

// On GPU machines Tenon places at least 99 of 100 pods that full knowledge in advance could place.
func TestSmallCasesComeCloseToTheOptimum(t *testing.T) {
	for trace, least := range map[string]int{"gpu": 990, "alibaba": 970} {
		c := &Comparison{}
		if err := c.open(nil); err != nil {
			t.Fatal(err)
		}
		if err := c.solve(script(t, trace), Settings{Seed: 1, Cases: 60}); err != nil {
			t.Fatal(err)
		}
		ours := c.Columns[0].Optimum
		if c.Cases < 50 || 1000*ours < least*c.Optimum {
			t.Errorf("%s: Tenon places %d of %d pods of %d cases, want %d of 1000", trace, ours, c.Optimum, c.Cases, least)
		}
		for _, k := range c.Columns[1:] {
			if k.Optimum > c.Optimum || k.Optimum > ours {
				t.Errorf("%s: %q places %d pods, Tenon %d, the most is %d", trace, k.Contender, k.Optimum, ours, c.Optimum)
			}
		}
	}
}

// The best packings of a small machine are known: one pod of four GPUs and four of one, or two of four.
func TestPackings(t *testing.T) {
	tr := trace(t, "machines pair 1\n"+pair+wide+"shape one : main cpu=2 memory=4Gi acme.com/gpu=1\n"+
		"shape two : main cpu=4 memory=8Gi acme.com/gpu=2\nshape node : main cpu=16 memory=64Gi acme.com/gpu=4\n"+
		"pod 0 1 one\n")
	got, ok := packings(tr.Fleets[0], tr.Shapes)
	want := []counts{{0, 0, 1}, {0, 2, 0}, {2, 1, 0}, {4, 0, 0}}
	if !ok || len(got) != len(want) {
		t.Fatalf("packings %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("packings %v, want %v", got, want)
		}
	}
	two := [][]counts{got, got}
	for pods, fit := range map[counts]bool{{4, 0, 1}: true, {2, 1, 1}: true, {2, 3, 0}: true, {3, 1, 1}: false,
		{1, 4, 0}: false, {0, 0, 3}: false} {
		if packs(two, pods) != fit {
			t.Errorf("two machines can have %v: want %v", pods, fit)
		}
	}
}
