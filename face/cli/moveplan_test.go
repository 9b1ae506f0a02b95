package cli

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Another program gets the plan of the command defrag, and learns why there is none.
func TestOtherProgramsAskWhichPodsMove(t *testing.T) {
	s := Setup{Stages: stages([]byte(scattered(t, nil)))}
	wide := MoveQuestion{For: []string{"ml/wide"}, Most: 3}
	got, err := s.PlanMoves(t.Context(), wide)
	if err != nil || got.Plan == nil || len(got.Plan.Moves) != 1 || got.Plan.Moves[0].Name != "train-0" ||
		got.Plan.Moves[0].UID == "" || len(got.Plan.Goals) != 1 || got.Plan.Goals[0].Node != "gpu-a" {
		t.Fatalf("the plan is %+v: %v", got.Plan, err)
	}
	if again, err := s.PlanAgain(t.Context(), wide, got.Plan.Moves); err != nil || len(again.Moves) != 1 {
		t.Errorf("the plan does not work any more: %+v, %v", again, err)
	}
	if _, err := s.PlanAgain(t.Context(), wide, nil); err == nil {
		t.Error("the plan works without its move")
	}
	// Whether a pod starts alone is not known any more, for example because its PodGroup could not be read.
	unsure := Setup{Stages: stages([]byte(scattered(t, func(p *v1.Pod) {
		if p.Name == "wide" {
			p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "train"}
		}
	})))}
	for _, left := range [][]PodOn{got.Plan.Moves, nil} {
		if again, err := unsure.PlanAgain(t.Context(), wide, left); err == nil {
			t.Errorf("the plan works for no pod, with %d moves that were left: %+v", len(left), again)
		}
	}

	low := int32(-1)
	for name, c := range map[string]struct {
		change func(q *MoveQuestion)
		why    string
	}{
		"another namespace": {func(q *MoveQuestion) { q.Namespaces = []string{"web"} }, "each is of another namespace"},
		"a high priority":   {func(q *MoveQuestion) { q.MaxPriority = &low }, "each has a priority above -1"},
	} {
		q := wide
		c.change(&q)
		got, err := s.PlanMoves(t.Context(), q)
		if err != nil || got.Plan != nil || !strings.Contains(got.Why, c.why) || strings.Contains(got.Why, "\n") {
			t.Errorf("%s: got %+v, %v, want one line with %q", name, got, err, c.why)
		}
	}
	for name, q := range map[string]MoveQuestion{"no moves": {For: []string{"ml/wide"}}, "no pod": {Most: 1},
		"a pod that is not there": {For: []string{"ml/none"}, Most: 1}} {
		if got, err := s.PlanMoves(t.Context(), q); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}
