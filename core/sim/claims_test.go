package sim

import "testing"

// What the demonstration and the README say about the trace of GPU jobs.

// Where no job ends, a scheduler that lets large jobs wait places more jobs and gives out fewer GPUs: it has more small
// jobs and fewer large ones than Tenon.
func TestMoreJobsInTheEndAreSmallerJobs(t *testing.T) {
	got, err := Compare(script(t, "gpu"), Settings{Machines: 60, Seed: 1, Runs: 3, Only: []string{Tenon, KubeLeast}})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := got.Columns[0], got.Columns[1]
	if ours.Contender != Tenon || theirs.Contender != KubeLeast {
		t.Fatalf("compared %s with %s", ours.Contender, theirs.Contender)
	}
	if theirs.Stay.Placed <= ours.Stay.Placed || theirs.Stay.Given >= ours.Stay.Given {
		t.Errorf("%s places %d jobs on %d GPUs, Tenon %d on %d: want more jobs on fewer GPUs", KubeLeast,
			theirs.Stay.Placed, theirs.Stay.Given, ours.Stay.Placed, ours.Stay.Given)
	}
	sum := 0
	for i, s := range got.Shapes {
		more := theirs.Placed[i] - ours.Placed[i]
		if small := s.Name == "one" || s.Name == "two"; small != (more > 0) {
			t.Errorf("%s places %d jobs of shape %s, Tenon %d", KubeLeast, theirs.Placed[i], s.Name, ours.Placed[i])
		}
		if theirs.Placed[i] > got.Arrived[i] || ours.Placed[i] > got.Arrived[i] {
			t.Errorf("shape %s: %d and %d jobs are placed, %d arrived", s.Name, ours.Placed[i], theirs.Placed[i],
				got.Arrived[i])
		}
		sum += theirs.Placed[i]
	}
	if sum != theirs.Stay.Placed {
		t.Errorf("%d jobs by shape, %d in all", sum, theirs.Stay.Placed)
	}
}

// Where no job ends, kubelets leave no gaps: a machine that has enough for a job in sum has it together. So nobody is
// refused, also under schedulers that count whole nodes. Once jobs end, there are gaps, and refusals.
func TestGapsComeFromJobsThatEnd(t *testing.T) {
	for _, name := range []string{KubeLeast, KubeMost} {
		for _, stay := range []bool{true, false} {
			tr, err := script(t, "gpu").Trace(60, 1)
			if err != nil {
				t.Fatal(err)
			}
			gaps := 0
			r := newReplay(tr, contender(t, name), Options{Seed: 1, Stay: stay})
			r.hook = func(r *replay) {
				for _, s := range r.cluster.live {
					for shape := range tr.Shapes {
						if a := r.cluster.answer(s, shape); a.enough && !a.fits {
							gaps++
						}
					}
				}
			}
			if err := r.run(); err != nil {
				t.Fatal(err)
			}
			if got := r.finish(); stay && (gaps > 0 || got.Refused > 0) || !stay && (gaps == 0 || got.Refused == 0) {
				t.Errorf("%s, jobs stay: %t: %d gaps, %d refusals", name, stay, gaps, got.Refused)
			}
		}
	}
}

// kube-scheduler with MostAllocated packs jobs that do not end as well as Tenon. When jobs end, it is refused more
// often than with its default score, and Tenon is never.
func TestMostAllocatedPacksAndIsRefused(t *testing.T) {
	got, err := Compare(script(t, "gpu"), Settings{Machines: 60, Seed: 1, Runs: 3,
		Only: []string{Tenon, KubeLeast, KubeMost}})
	if err != nil {
		t.Fatal(err)
	}
	ours, least, most := got.Columns[0], got.Columns[1], got.Columns[2]
	if most.Stay.Given != ours.Stay.Given || most.Stay.Given != most.Stay.Capacity {
		t.Errorf("%s gives out %d GPUs, Tenon %d of %d", KubeMost, most.Stay.Given, ours.Stay.Given, ours.Stay.Capacity)
	}
	if ours.Churn.Refused != 0 || least.Churn.Refused == 0 || most.Churn.Refused <= least.Churn.Refused {
		t.Errorf("%d, %d and %d refusals under %s, %s and %s", ours.Churn.Refused, least.Churn.Refused, most.Churn.Refused,
			Tenon, KubeLeast, KubeMost)
	}
}

// On nodes with the policy restricted, NodeResourceTopologyMatch does what kube-scheduler does: its filter passes every
// pod there.
func TestMatchPassesEveryPodUnderRestricted(t *testing.T) {
	got, err := Compare(script(t, "gpu"), Settings{Machines: 60, Seed: 1, Runs: 1, Only: []string{Match, KubeLeast}})
	if err != nil {
		t.Fatal(err)
	}
	if match, kube := got.Columns[0].Stay, got.Columns[1].Stay; match.Given != kube.Given || match.Placed != kube.Placed {
		t.Errorf("%s places %d jobs on %d GPUs, %s %d on %d", Match, match.Placed, match.Given, KubeLeast, kube.Placed,
			kube.Given)
	}
}

func TestOnlyNamedContendersAreCompared(t *testing.T) {
	s := script(t, "gpu")
	got, err := Compare(s, Settings{Machines: 2, Seed: 1, Runs: 1, Cases: 1, Only: []string{KubeMost, Tenon}})
	if err != nil || len(got.Columns) != 2 || got.Columns[0].Contender != Tenon || got.Columns[1].Contender != KubeMost {
		t.Errorf("%+v, %v; want %s and %s", got, err, Tenon, KubeMost)
	}
	if _, err := Compare(s, Settings{Machines: 2, Runs: 1, Only: []string{"blind"}}); err == nil {
		t.Error("a contender without a name of the list is compared")
	}
}
