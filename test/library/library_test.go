package library_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"sigs.k8s.io/scheduler-library/pkg/upstreamsync/snapshot"
)

const never = `Tenon: never on this machine: container "c" wants 20 cpu on one NUMA node; the largest has 16`

// Both nodes have 32 free CPUs, and one of them has 20 on one NUMA node.
func TestTenonRefusesWhatNoNUMANodeCanTake(t *testing.T) {
	c := start(t)
	tenon := c.snapshot(c.with())
	unnamed := cores("", 20) // as Kueue asks for the pods of a workload that has none yet
	unnamed.UID = ""
	for _, pod := range []*v1.Pod{cores("p", 20), unnamed} {
		c.equal("without Tenon", c.ask(c.without(), pod), answer{nodes: both})
		c.equal("with Tenon", c.ask(tenon, pod), answer{[]string{"whole"}, map[string]string{"halves": never}})
	}
	c.equal("a pod that fits on both", c.ask(tenon, cores("p", 16)), answer{nodes: both})

	got := c.schedule(tenon, both, true, cores("p", 20))
	if len(got) != 1 || got[0] != "whole" {
		t.Errorf("the pod goes to %v, want the node with 20 CPUs on one NUMA node", got)
	}
	got = c.schedule(tenon, []string{"halves"}, true, cores("p", 20))
	if !strings.Contains(got[0], "the largest has 16") {
		t.Errorf("the library answers %q", got)
	}
}

// Each NUMA node of the node has 16 CPUs: room for one pod of ten, not for a third pod on what is left of both.
func TestPodsAreSupposedOneAfterTheOther(t *testing.T) {
	c := start(t)
	state := c.with()
	halves := []string{"halves"}
	got := c.schedule(c.without(), halves, true, three()...)
	if !slices.Equal(got, []string{"halves", "halves", "halves"}) {
		t.Errorf("without Tenon the pods go to %v", got)
	}
	trial := func(what string, s *snapshot.ClusterSnapshot) {
		got := c.schedule(s, halves, true, three()...)
		refused := strings.Contains(got[2], "wants 10 cpu on one NUMA node")
		if !slices.Equal(got[:2], []string{"halves", "halves"}) || !refused {
			t.Errorf("%s: the pods go to %q", what, got)
		}
	}
	s := c.snapshot(state)
	trial("first trial", s)
	trial("second trial, when the first is undone", s)
	err := s.Transaction(c.ctx, func() (snapshot.TransactionResult, error) {
		c.schedule(s, halves, false, cores("q", 10), cores("r", 10))
		got := c.ask(s, cores("p", 10))
		if !slices.Equal(got.nodes, []string{"whole"}) || !strings.HasPrefix(got.why["halves"], "Tenon: ") {
			t.Errorf("with two pods, the library answers %+v", got)
		}
		return snapshot.Revert, nil
	})
	if err != nil {
		t.Error(err)
	}
	trial("after a transaction that was undone", s)
	template := &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: cores("p", 10).Spec}
	on, err := s.MakePlacement(both)
	if err != nil {
		t.Fatal(err)
	}
	results, err := s.SchedulePodsByTemplate(c.ctx, template, on, 9, snapshot.NewSchedulePodsByTemplateOptions(true))
	if err != nil || len(results) != 6 || results[5].Status.IsSuccess() {
		t.Errorf("%v, %d pods of a template are tried, want the five that fit and one more", err, len(results))
	}
}

// three returns three pods of ten CPUs.
func three() []*v1.Pod { return []*v1.Pod{cores("a", 10), cores("b", 10), cores("c", 10)} }

// The library forgets what was scheduled in a snapshot when it makes the next one, and does not call Unreserve.
func TestWhatIsNotUndoneStaysBooked(t *testing.T) {
	c := start(t)
	state := c.with()
	c.schedule(c.snapshot(state), []string{"whole"}, false, cores("q", 20))
	got := c.ask(c.snapshot(state), cores("p", 20))
	if len(got.nodes) > 0 || !strings.HasPrefix(got.why["whole"], "Tenon: ") {
		t.Errorf("%+v: the library undoes its snapshots: use that", got)
	}
}

// The library removes evicted pods from its nodes. It does not call RemovePod, by which kube-scheduler's preemption
// reports an eviction to plugins.
func TestTenonDoesNotLearnOfEvictedPods(t *testing.T) {
	c := start(t)
	victim := c.runs("victim", "whole", whole, "0-29")
	pod := cores("p", 20)
	evict := func(s *snapshot.ClusterSnapshot) answer {
		if got := c.ask(s, pod).why["whole"]; got != "NodeResourcesFit: Insufficient cpu" {
			t.Errorf("before the eviction: %q", got)
		}
		if _, err := s.PreemptPods(c.ctx, []*v1.Pod{victim}); err != nil {
			t.Fatal(err)
		}
		return c.ask(s, pod)
	}
	c.equal("without Tenon", evict(c.without()), answer{nodes: both})
	got := evict(c.snapshot(c.with()))
	if len(got.nodes) > 0 || !strings.HasPrefix(got.why["whole"], "Tenon: ") {
		t.Errorf("%+v: the library tells plugins about evictions: use that", got)
	}
}

// A snapshot of the library has the nodes' amounts of one time. Tenon answers from the reports of now.
func TestTenonFollowsReportsBehindASnapshot(t *testing.T) {
	c := start(t)
	s := c.snapshot(c.with())
	if got := c.ask(s, cores("p", 20)).nodes; !slices.Equal(got, []string{"whole"}) {
		t.Errorf("before the report, the pod fits on %v", got)
	}
	c.runs("new", "whole", whole, "0-29")
	err := wait.PollUntilContextCancel(c.ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		return len(c.ask(s, cores("p", 20)).nodes) == 0, nil
	})
	if err != nil {
		t.Errorf("Tenon still takes the pod: %v", err)
	}
}

// Only PreFilter, Filter, Reserve and Unreserve run.
func TestWhichExtensionPointsRun(t *testing.T) {
	c := start(t)
	victim := c.runs("victim", "whole", whole, "0-9")
	s := c.snapshot(c.with())
	c.ask(s, cores("p", 4))
	c.schedule(s, both, true, cores("p", 4), cores("q", 40))
	if _, err := s.PreemptPods(c.ctx, []*v1.Pod{victim}); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(c.probe.ran))
	if want := []string{"Filter", "PreFilter", "Reserve", "Unreserve"}; !slices.Equal(got, want) {
		t.Errorf("the library runs %v, want %v", got, want)
	}
}

// The library makes its frameworks itself, with the plugins of kube-scheduler and without a kubeconfig.
func TestTheLibraryCannotMakeTenon(t *testing.T) {
	c := start(t)
	_, err := c.simulator(tenon).NewClusterSnapshot(c.ctx, c.pods, c.nodes)
	if err == nil || !strings.Contains(err.Error(), "Tenon") {
		t.Errorf("a profile with Tenon: %v", err)
	}
	_, err = c.frameworks(cache.NewEmptySnapshot())
	if err == nil || !strings.Contains(err.Error(), "gives its plugins no kubeconfig") {
		t.Errorf("a registry with Tenon, and no kubeconfig: %v", err)
	}
}
