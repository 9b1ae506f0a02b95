package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/answers"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
	"github.com/tenon-numa/tenon/scheduler/metrics"
)

// many returns a pod with this many init containers, each with its own name.
func many(name string, inits int) *v1.Pod { return kubetest.Many(name, inits) }

// A pod that costs too much is refused once, before any node is judged, with a remedy.
func TestAPodOfTooManyContainersIsRefusedOnce(t *testing.T) {
	p := newPlugin(t, refuse)
	p.metrics = metrics.NewCounters()
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	// shared adds this many containers that hold nothing.
	shared := func(pod *v1.Pod, count int) *v1.Pod {
		for i := range count {
			c := cpus("x", 1).Spec.Containers[0]
			c.Name, c.Resources = fmt.Sprintf("shared-%d", i), v1.ResourceRequirements{}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
		return pod
	}
	device := podOf("d", "cpu=1 memory=1Gi acme.com/gpu=1")
	for want, pod := range map[string]*v1.Pod{
		"pod has 129 containers that need alignment, more than 128; use fewer containers": many("p", place.MaxContainers),
		"pod has 1001 containers, more than 1000; use fewer containers":                   shared(device, 1000),
	} {
		cs := framework.NewCycleState()
		_, status := p.PreFilter(t.Context(), cs, pod, nil)
		if status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != want {
			t.Errorf("status %v, want %s", status, want)
		}
		if _, ok := read(cs); ok {
			t.Error("nodes would be asked")
		}
		if _, status := p.SignPod(t.Context(), pod); status.IsSuccess() {
			t.Error("such pods are batched")
		}
	}
	if got := counted(t, p.metrics, "tenon_budgets_exceeded_total", metrics.BudgetPod); got != 2 {
		t.Errorf("%v pods are counted as too expensive, want 2", got)
	}
	fits(t, filter(t, p, cycle(t, p, many("q", place.MaxContainers-1)), "n"))
	unaligned := shared(podOf("r", "cpu=100m"), 7000)
	if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), unaligned, nil); !status.IsSkip() {
		t.Errorf("a pod that nobody would align: status %v", status)
	}
}

// No node judges a large pod in advance, and each judges it once while it does not change.
func TestALargePodIsNotJudgedInAdvance(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "n", two, place.SingleNUMA, 1))
	for inits, indexed := range map[int]bool{maxIndexed - 1: true, maxIndexed: false} {
		cs := cycle(t, p, many("p", inits))
		s, _ := read(cs)
		if (s.fits != nil) != indexed {
			t.Errorf("%d init containers: asked in advance %t, want %t", inits, s.fits != nil, indexed)
		}
		fits(t, filter(t, p, cs, "n"))
	}
	s, _ := read(cycle(t, p, many("q", 100)))
	slot, _ := s.snap.Slot("n")
	p.answer(s, slot)
	again, _ := read(cycle(t, p, many("r", 100)))
	if allocs := testing.AllocsPerRun(10, func() { p.answer(again, slot) }); allocs > 0 {
		t.Errorf("a node that did not change is asked again: %v allocations", allocs)
	}
}

// For a large pod kube-scheduler filters a few nodes that fit, and all nodes if few fit: the pod gets a node if there
// is one.
func TestLargePodsAreFilteredOnFewNodes(t *testing.T) {
	y := newYard(t, 100, 50)
	c := y.open(t, "tenon", shippedProfile(t))
	for _, size := range []int{2, 20, 31, 32, 33} {
		pod := many(fmt.Sprint("p", size), 40)
		pod.Spec.Containers[0].Resources = cpus("x", size).Spec.Containers[0].Resources
		spec, room := mustPod(t, pod), 0
		for n := range c.shared.Book.Snapshot().All() {
			if n.Place(spec, place.Demand{}).Fits() {
				room++
			}
		}
		if fits := c.attempt(t, pod); fits != (room > 0) {
			t.Errorf("an app of %d CPUs has room on %d nodes, gets a place %t", size, room, fits)
		}
		asked := 0
		s, _ := translate(pod)
		row := c.shared.answers.Find(answers.Kind{Profile: c.shared.plugins[0].profile, Pod: s.key,
			By: c.shared.plugins[0].strategy.Type})
		for slot := range 100 {
			if row.Has(c.shared.Book.Snapshot(), slot) {
				asked++
			}
		}
		if size == 2 && (asked < 16 || asked > 32) {
			t.Errorf("%d nodes were asked where nearly all have room", asked)
		}
	}
}
