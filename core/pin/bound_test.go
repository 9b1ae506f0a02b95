package pin_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// gpu is a pod of four CPUs whose device is on NUMA node 3, so the agent places it when it arrives.
func gpu(uid string) pin.Arrival {
	p := guaranteed(4)
	p.Containers[0].Devices = []place.Count{{Resource: "acme.com/gpu", N: 1}}
	return pin.Arrival{UID: uid, Spec: p,
		Devices: []pin.Given{{Container: "c0", Resource: "acme.com/gpu", IDs: []string{"b"}}}}
}

// onNUMA3 is a pod for which the scheduler has decided four CPUs of NUMA node 3.
func onNUMA3(uid, list string) pin.Arrival {
	return pin.Arrival{UID: uid, Spec: guaranteed(4), Decision: []place.Holding{{Container: "c0", CPUs: cpus(list),
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: 8, Bytes: 1 << 30}}}}}
}

// The pod with a device would get CPUs 12-13 and 28-29; those are decided for a pod that comes later.
func TestAPodOnItsWayFindsItsCPUsFree(t *testing.T) {
	late := onNUMA3("late", "12-13,28-29")
	n := node(t, nil).Awaiting([]pin.Arrival{late}).With(gpu("p"))
	want(t, n, "p", "c0", "14-15,30-31", 3)
	n = n.With(late)
	want(t, n, "late", "c0", "12-13,28-29", 3)
	if p, _ := n.Pod("late"); !p.Decided || p.Fault != nil {
		t.Errorf("pod %+v", p)
	}
}

// A pod that is resized does not grow into these CPUs either. CPUs that no pod waits for any more are free again.
func TestWhatIsDecidedIsFreeOnceItsPodHasGone(t *testing.T) {
	n := node(t, nil).With(onNUMA3("p", "14-15,30-31")).Awaiting([]pin.Arrival{onNUMA3("late", "12-13,28-29")})
	grown := n.Resized("p", guaranteed(6)).Pin("p", "c0").CPUs
	if grown.Len() != 6 || grown.AndLen(cpus("12-13,28-29")) > 0 {
		t.Errorf("with a pod on its way, the pod grows to CPUs %s", grown)
	}
	grown = n.Awaiting(nil).Resized("p", guaranteed(8)).Pin("p", "c0").CPUs
	if grown.String() != "12-15,28-31" {
		t.Errorf("when that pod has gone, the pod grows to CPUs %s", grown)
	}
}

// A decision for CPUs that another pod has, or that its own pod does not ask for, keeps no CPU free.
func TestAnImpossibleDecisionKeepsNothingFree(t *testing.T) {
	wide := onNUMA3("wide", "1-15,17-31") // its pod asks for four
	n := node(t, nil).With(onNUMA3("owner", "14-15,30-31")).
		Awaiting([]pin.Arrival{onNUMA3("taken", "12,13,14,15"), wide}).With(gpu("p"))
	want(t, n, "p", "c0", "12-13,28-29", 3)
}

// A decision that is written anew while its pod is on its way replaces the older one.
func TestADecisionThatChangesOnTheWay(t *testing.T) {
	n := node(t, nil).Awaiting([]pin.Arrival{onNUMA3("late", "14-15,30-31")}).
		Awaiting([]pin.Arrival{onNUMA3("late", "12-13,28-29")}).With(gpu("p"))
	want(t, n, "p", "c0", "14-15,30-31", 3)
}
