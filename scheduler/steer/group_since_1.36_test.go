//go:build !upto1.35

package steer_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
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

// Two pods of a group share a claim, and the second one has a claim of its own, for any request. It gets a near device,
// and not the one of the claim that they share.
func TestPodsOfAGroupWithClaimsOfTheirOwn(t *testing.T) {
	exact := counted(1).Requests[0]
	all := wanting("r", "gpu", 0)
	all.Exactly.Selectors = selector(`device.attributes["example.com"].large`)
	list := resourcev1.DeviceRequest{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{
		{Name: "large", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 4},
		{Name: "small", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	for name, c := range map[string]struct {
		own   resourcev1.DeviceRequest
		align string
		want  string
	}{
		"one device":       {exact, "", "r gpu.example.com/node/gpu-3"},
		"all that match":   {all, "", "r gpu.example.com/node/gpu-3"},
		"alternatives":     {list, "", "r/small gpu.example.com/node/gpu-3"},
		"a demanded claim": {exact, "claim:claim-1", "r gpu.example.com/node/gpu-3"},
	} {
		for _, order := range []string{"shared first", "own first"} {
			t.Run(name+", "+order, func(t *testing.T) {
				b, group := newBench(t), framework.NewCycleState()
				devices := b.gpus(0, 0, 1, 1)
				for i := range devices {
					devices[i].Attributes["example.com/large"] = resourcev1.DeviceAttribute{BoolValue: new(i == 3)}
				}
				b.near = steer.Near{NUMAs: []int{1}, Must: c.align == ""}
				member := func(pod *v1.Pod) outcome {
					cs := framework.NewCycleState()
					cs.SetPodGroupSchedulingCycle(group)
					return b.scheduleIn(t.Context(), t, cs, pod)
				}
				first, second := podNamed("first"), podNamed("second")
				second.UID = "second"
				b.claim(first, counted(1))
				if got := member(first); got.why != "" {
					t.Fatal(got.why)
				}
				b.taken.Insert(idOf("gpu-2"))
				second.Spec.ResourceClaims = slices.Clone(first.Spec.ResourceClaims)
				b.claim(second, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{c.own}})
				if order == "own first" {
					slices.Reverse(second.Spec.ResourceClaims)
				}
				if c.align != "" {
					second.Annotations = map[string]string{"tenon.sh/align": c.align}
				}
				want := []string{"claim-0/r gpu.example.com/node/gpu-2", "claim-1/" + c.want}
				if got := member(second); !slices.Equal(got.granted, want) {
					t.Errorf("the group got %v (%s), want %v", got.granted, got.why, want)
				}
			})
		}
	}
}

// A pod shares a claim of its group and asks for an extended resource. kube-scheduler's plugin would exchange their
// devices.
func TestAPodOfAGroupWithAnExtendedResource(t *testing.T) {
	b, group := newBench(t), framework.NewCycleState()
	b.gpus(0, 0)
	b.classes["gpu"].Spec.ExtendedResourceName = new("example.com/gpu")
	b.extended["example.com/gpu"] = "gpu"
	first, second := podNamed("first"), podWith("example.com/gpu", "1")
	b.claim(first, counted(1))
	second.UID, second.Spec.ResourceClaims = "second", first.Spec.ResourceClaims
	for _, pod := range []*v1.Pod{first, second} {
		cs := framework.NewCycleState()
		cs.SetPodGroupSchedulingCycle(group)
		got := b.scheduleIn(t.Context(), t, cs, pod)
		b.taken.Insert(idOf("gpu-0"))
		if want := []string{"claim-0/r gpu.example.com/node/gpu-0"}; pod == first && !slices.Equal(got.granted, want) {
			t.Errorf("the first pod got %v (%s), want %v", got.granted, got.why, want)
		}
		if pod == second && !strings.Contains(got.why, "shares a claim of its group and asks for an extended resource") {
			t.Errorf("the second pod got %v (%s), want to be refused", got.granted, got.why)
		}
	}
}

// Where a claim of its own would get devices from afar, such a pod waits; trying it again would end in the same way.
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
