//go:build !upto1.35

package steer_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/steer"
)

// In the cycle of a group, pods share a claim that the first of them has reserved. A pod that would be elsewhere than
// its devices is refused by Filter, so that another node may be chosen, and is not tried again at once.
func TestPodsOfAGroupThatShareAClaim(t *testing.T) {
	b, group := newBench(t), framework.NewCycleState()
	b.gpus(0, 1)
	member := func(pod *v1.Pod, numa int) outcome {
		cs := framework.NewCycleState()
		cs.SetPodGroupSchedulingCycle(group)
		b.near = steer.Near{NUMAs: []int{numa}, Must: true}
		return b.scheduleIn(t.Context(), t, cs, pod)
	}
	first, second, third := podNamed("first"), podNamed("second"), podNamed("third")
	b.claim(first, counted(1))
	for _, pod := range []*v1.Pod{second, third} {
		pod.Spec.ResourceClaims = first.Spec.ResourceClaims
	}
	if got := member(first, 1); len(got.devices) != 1 || got.devices[0] != gpuNames("1")[0] {
		t.Fatalf("the first pod got %+v", got)
	}
	if got := member(second, 1); got.why != "" {
		t.Errorf("the second pod was refused: %s", got.why)
	}
	if got := member(third, 0); !strings.Contains(got.why, "the pod's claims get no devices on NUMA node 0") {
		t.Errorf("the third pod got %+v", got)
	}
	if len(b.pending) != 1 || b.undone > 0 {
		t.Errorf("%d claims are reserved, and %d pods are tried again; want 1 and 0", len(b.pending), b.undone)
	}
}

// A claim of its own, which such a pod has as well, is allocated by kube-scheduler's plugin. Where it gets devices from
// afar, the pod waits; trying it again would end in the same way.
func TestAPodOfAGroupWithAClaimOfItsOwn(t *testing.T) {
	b, group := newBench(t), framework.NewCycleState()
	b.gpus(0, 1)
	b.near = steer.Near{NUMAs: []int{1}, Must: true}
	member := func(pod *v1.Pod) outcome {
		cs := framework.NewCycleState()
		cs.SetPodGroupSchedulingCycle(group)
		return b.scheduleIn(t.Context(), t, cs, pod)
	}
	first, second := podNamed("first"), podNamed("second")
	b.claim(first, counted(1))
	second.Spec.ResourceClaims = first.Spec.ResourceClaims
	if got := member(first); got.why != "" {
		t.Fatal(got.why)
	}
	b.claim(second, counted(1))
	b.taken.Insert(idOf("gpu-1"))
	if got := member(second); !strings.Contains(got.why, "the pod's claims get no devices on NUMA node 1") {
		t.Errorf("the second pod got %+v", got)
	}
	if b.undone > 0 {
		t.Errorf("the pod is tried again at once, and nothing has changed")
	}
}
