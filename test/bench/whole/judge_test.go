package whole

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// Pods that were bound to one node regardless of its room: the managers refuse those that do not fit, and agree with
// the results at binding.
func TestManagersRefuseWhatDoesNotFit(t *testing.T) {
	c, err := synthetic.Make(synthetic.Size{Nodes: 2, Full: 50}, 3)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.Arrivals(40)
	if err != nil {
		t.Fatal(err)
	}
	u, want := c.States[1].Usage, 0
	for _, p := range pods {
		spec, err := apipod.ToPlace(p)
		if err != nil {
			t.Fatal(err)
		}
		p.Status.Phase = v1.PodRunning
		if v := place.Place(u, spec); v.Fits() {
			u = u.Hold(v.Holdings...)
		} else {
			p.Status.Phase = v1.PodFailed
			want++
		}
	}
	got, err := judge(t.Context(), c, map[string][]*v1.Pod{c.Nodes[1].Name: pods}, 1)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, n := range got.Refused {
		refused += n
	}
	if want == 0 || refused != want || got.Admitted != len(pods)-want || got.Differ != 0 || got.Before != 0 ||
		got.Nodes != 1 {
		t.Errorf("the managers say %+v, want %d refused of %d", got, want, len(pods))
	}
	i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.Status.Phase == v1.PodFailed })
	pods[i].Status.Phase = v1.PodRunning
	if got, err = judge(t.Context(), c, map[string][]*v1.Pod{c.Nodes[1].Name: pods}, 1); err != nil || got.Differ != 1 {
		t.Errorf("one pod is said to run that the managers refuse, and %d are found (%v)", got.Differ, err)
	}
}

func TestWhatSchedulersSayIsToldWithoutNumbers(t *testing.T) {
	for message, want := range map[string]string{
		"0/5 nodes are available: 2 Insufficient cpu, 3 cannot align container \"app\" (wants 4 cpu on one NUMA node; " +
			"best NUMA node has 2 free). preemption: 0/5 nodes": "Insufficient cpu, cannot align container",
		"0/12 nodes are available: 12 Insufficient memory.": "Insufficient memory",
		"something else": "something else",
	} {
		if got := gist(message); got != want {
			t.Errorf("gist(%q) = %q, want %q", message, got, want)
		}
	}
}
