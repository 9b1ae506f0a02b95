package trial_test

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/lab/conformance"
	"github.com/tenon-numa/tenon/lab/conformance/remote"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

// The suite for running clusters grades both schedulers on two nodes of one kind, whose kubelets are the judges.
func TestGradedNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("boots two machines of 20 CPUs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	w := start(ctx, t, "even", "twin")
	// No controller deletes namespaces here, so both runs use one that exists.
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: remote.DefaultNamespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("Tenon passes", func(t *testing.T) {
		if lost := w.grade(ctx, t, tenon); len(lost) > 0 {
			t.Errorf("Tenon loses %v", lost)
		}
	})
	t.Run("the default scheduler does not", func(t *testing.T) {
		lost := w.grade(ctx, t, v1.DefaultSchedulerName)
		for _, want := range []string{"too-wide", "full-halves"} {
			if !slices.Contains(lost, want) {
				t.Errorf("the default scheduler loses %v, want also %s", lost, want)
			}
		}
	})
}

// grade plays all cases with a scheduler, and returns the names of those that it loses.
func (w *world) grade(ctx context.Context, t *testing.T, scheduler string) (lost []string) {
	t.Helper()
	cases, err := remote.Cases()
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Run(ctx, cases, remote.Options{Config: w.plane.Admin, SchedulerName: scheduler,
		Namespace: remote.DefaultNamespace, Image: realnode.Image, NUMA: "2x10",
		// The nodes are emulated: a container takes seconds to start.
		Settle: 5 * time.Second, Pause: 2 * time.Second,
		Progress: func(line string) { t.Log(line) },
		Done: func(r *conformance.Result) {
			t.Logf("%s: %s: %v", scheduler, r.Case.Name, r.Counts())
			if r.Err != nil {
				t.Errorf("case %s: %v", r.Case.Name, r.Err)
			}
			if !r.Passed() {
				lost = append(lost, r.Case.Name)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Results) != len(cases) {
		t.Errorf("%d of %d cases were played: %v", len(found.Results), len(cases), found.NotJudged)
	}
	return lost
}
