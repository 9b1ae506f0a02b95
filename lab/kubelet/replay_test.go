package kubelet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
)

// unplayable are scenario files that the managers cannot play, and why.
func unplayable() map[string]string {
	return map[string]string{
		"more_than_eight_numas_are_not_handled": "the topology manager does not start",
		"memory_wraps":                          "amounts that wrapped are compared by TestDiscoveredMachines",
	}
}

// Every scenario file matches the kubelet's managers. The prediction is made once from the managers' records, and once
// from the file's own earlier lines.
func TestScenarioFilesAreWhatTheManagersDo(t *testing.T) {
	files, err := filepath.Glob("../../core/place/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files (%v)", err)
	}
	for name := range unplayable() {
		if !slices.Contains(files, "../../core/place/testdata/"+name+".txt") {
			t.Errorf("%s is not a scenario file", name)
		}
	}
	dir := judgeDir(t)
	releases, _ := judging()
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			j := newJudge(t, release)
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".txt")
				t.Run(name, func(t *testing.T) { playFile(t, j, dir, file, name) })
			}
		})
	}
}

// playFile has a judge play a scenario file, if its release can.
func playFile(t *testing.T, j judge, dir, file, name string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := scenario.Parse(file, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if why, skip := unplayable()[name]; skip {
		t.Skip(why)
	}
	if of := f.Rules.Release; of != 0 && of != j.release() {
		t.Skipf("it is of release %s", of)
	}
	if f.Rules.PodLevelManagers != j.managers() {
		t.Skipf("the gate %s: %t", podLevelGate, f.Rules.PodLevelManagers)
	}
	if known := f.Rules; !knownTo(j.release(), &known).Equal(f.Rules) {
		t.Skipf("release %s does not know its options", j.release())
	}
	if _, linked := j.(here); !linked && emptyLists(f.Machine) {
		t.Skipf("the judge of release %s announces no empty lists", j.release())
	}
	if err := asOf(j, &f.Scenario); err != nil {
		t.Fatal(err)
	}
	own, err := os.MkdirTemp(dir, "f")
	if err != nil {
		t.Fatal(err)
	}
	if err := playBoth(t.Context(), j, own, &f.Scenario); err != nil && !errors.Is(err, errOver) {
		t.Error(err)
	}
}

func playBoth(ctx context.Context, j judge, dir string, s *scenario.Scenario) error {
	t, err := newTrial(ctx, j, dir, s, extras{}, place.Place, &tally{})
	if err != nil {
		return err
	}
	defer t.end()
	own := s.Begin() // the file's own node
	own.Rules = t.node.Rules
	for _, st := range s.Steps {
		if st.Do == scenario.Admit {
			v := place.Place(own.Usage(), &st.Pod)
			if v.Fits() && place.Judge(own.Usage(), &st.Pod, v, st.Demand).Fits() {
				own.Hold(st.Name, v.Holdings)
			}
		} else {
			own.Do(st)
		}
		if err := t.step(st); err != nil {
			return err
		}
		if st.Do == scenario.Admit && own.Has(st.Name) != t.node.Has(st.Name) {
			return differs(aboutVerdict, "pod %s: the file has it %v, the managers %v", st.Name, own.Has(st.Name),
				t.node.Has(st.Name))
		}
		own.Pods = append([]scenario.Held(nil), own.Pods...)
		for i := range own.Pods { // if the file shows one outcome of several, continue with the real one
			if !(place.Verdict{Holdings: own.Pods[i].Holdings}).Exact() {
				own.Pods[i] = t.node.Pods[i]
			}
		}
	}
	return nil
}

// planted is place.Place with a fault: if a container gets three CPUs or more on the second NUMA node, the lowest one
// is replaced by the lowest CPU of the machine.
func planted(u *place.Usage, p *place.Pod) place.Verdict {
	v := place.Place(u, p)
	for i := range v.Holdings {
		h := &v.Holdings[i]
		if len(u.Machine.NUMAs()) > 1 && h.CPUs.AndLen(u.Machine.NUMAs()[1].CPUs) >= 3 {
			h.CPUs = h.CPUs.Minus(idset.Of(h.CPUs.Min())).With(u.Machine.CPUs().Min())
		}
	}
	return v
}

// plantedSeed is the first seed that is tried. With seed 1, the remaining scenario cannot be reduced by removing one
// thing at a time: CPU 3 is reserved, and its NUMA node has to stay.
const plantedSeed = uint64(2)

// The judge finds a planted fault, and reports little else.
func TestPlantedFaultIsFoundAndMadeSmall(t *testing.T) {
	dir, j := judgeDir(t), newJudge(t, *diffRelease)
	var count tally
	var s *drawing
	var err error
	for seed := plantedSeed; err == nil && seed < plantedSeed+200; seed++ {
		s, err = try(j, dir, seed, planted, &count)
	}
	var d difference
	if !errors.As(err, &d) || d.about != aboutHoldings {
		t.Fatalf("after %d admissions: %v", count.steps[scenario.Admit], err)
	}
	small := shrink(j, dir, s.s, s.extras, d.about, planted)
	if err := replay(j, dir, small, s.extras, planted, &tally{}); !errors.As(err, &d) || d.about != aboutHoldings {
		t.Errorf("what is left does not show the fault: %v", err)
	}
	if err := replay(j, dir, small, s.extras, place.Place, &tally{}); err != nil {
		t.Errorf("what is left shows more than the fault: %v", err)
	}
	if n := len(small.Steps); n != 1 || len(small.Steps[0].Pod.Containers) != 1 ||
		small.Steps[0].Pod.Containers[0].MilliCPU > 4000 {
		t.Errorf("%d steps are left, want one pod with one container of three CPUs or so", n)
	}
	if n := len(small.Machine.NUMAs()); n != 2 || small.Machine.CPUs().Len() > 8 || len(small.Machine.Resources()) > 0 {
		t.Errorf("a machine of %d NUMA nodes, %d CPUs and %d resources is left", n, small.Machine.CPUs().Len(),
			len(small.Machine.Resources()))
	}
	text, err := small.Played()
	if err != nil {
		t.Fatal(err)
	}
	if f, err := scenario.Parse("small", text); err != nil || f.Play() != text {
		t.Errorf("not a scenario file (%v):\n%s", err, text)
	}
	t.Logf("from %d steps to:\n%s", len(s.s.Steps), text)
}
