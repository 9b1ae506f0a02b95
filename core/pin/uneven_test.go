package pin_test

import (
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

func described(t *testing.T, text string) *topo.Machine {
	m, err := topo.ParseMachine(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// If a thread of another core is offline, a kubelet counts a core with one free CPU as wholly free, and so gives out
// CPU 9 twice.
func TestAThreadIsOffline(t *testing.T) {
	spec := described(t, "numa 0 socket 0 cpus 0-7/8-15 memory 16Gi").Spec()
	for i := range spec.Cores {
		spec.Cores[i].CPUs = spec.Cores[i].CPUs.Minus(cpus("15"))
	}
	for i := range spec.NUMAs {
		spec.NUMAs[i].CPUs = spec.NUMAs[i].CPUs.Minus(cpus("15"))
	}
	m, err := topo.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Arbiter: place.ByAgent, CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 8)}}
	n := pin.New(m, r)
	var held idset.Set[idset.CPU]
	for i, uid := range []string{"a", "b", "c", "d", "e"} {
		n = n.With(pin.Arrival{UID: uid, Spec: guaranteed([]int64{1, 1, 2, 4, 5}[i])})
		got := n.Pin(uid, "c0")
		if p, _ := n.Pod(uid); p.Fault != nil || !got.Exclusive || got.CPUs.AndLen(held.Union(r.CPU.Reserved)) > 0 {
			t.Errorf("pod %s has CPUs %s, fault %v; others have %s", uid, got.CPUs, p.Fault, held)
		}
		held = held.Union(got.CPUs)
	}
	if held.Len() != 13 {
		t.Errorf("pods have CPUs %s: want all 13 that are not reserved", held)
	}
}

// CPU 1 is reserved now, so a has to move. It does not get CPUs of b, which may keep them.
func TestAPodThatMustMoveTakesNothingFromOthers(t *testing.T) {
	m := described(t, "numa 0 socket 0 cpus 0-7 memory 16Gi")
	rules := func(reserved string) place.Rules {
		return place.Rules{Arbiter: place.ByAgent, CPU: place.CPURules{Static: true, Reserved: cpus(reserved)}}
	}
	n := pin.New(m, rules("0"))
	n = n.With(pin.Arrival{UID: "a", Spec: guaranteed(1)}).With(pin.Arrival{UID: "b", Spec: guaranteed(2)})
	want(t, n, "a", "c0", "1")
	want(t, n, "b", "c0", "2-3")
	n = pin.New(m, rules("0-1")).Restored(n.Pods())
	want(t, n, "a", "c0", "4")
	want(t, n, "b", "c0", "2-3")
	if n.Pods()[0].UID != "a" {
		t.Errorf("pods are in the order %v", n.Pods())
	}
}

// A resize that does not fit and is withdrawn leaves the fault that the pod had, which is mended later.
func TestAResizeThatIsWithdrawnLeavesTheFault(t *testing.T) {
	decision := []place.Holding{{Container: "c0", CPUs: cpus("8-11,24-27"),
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: 4, Bytes: 1 << 30}}}}
	n := node(t, nil).With(pin.Arrival{UID: "ends", Spec: guaranteed(8), Decision: decision}).
		With(pin.Arrival{UID: "next", Spec: guaranteed(8), Decision: decision})
	n = n.Resized("next", guaranteed(30)).Resized("next", guaranteed(40))
	if p, _ := n.Pod("next"); p.Fault == nil || p.Fault.Code != pin.Shares || !p.Fault.Resize {
		t.Fatalf("fault %+v", p.Fault)
	}
	n = n.Resized("next", guaranteed(8))
	if p, _ := n.Pod("next"); p.Fault == nil || p.Fault.Code != pin.Replaced {
		t.Errorf("after the resize was withdrawn: fault %+v", p.Fault)
	}
	want(t, n.Without("ends").Mended(), "next", "c0", "8-11,24-27", 2)
}

// An init container may have CPUs of a sidecar after it, and none of a sidecar before it, which runs beside it.
func TestADecisionGivesAnInitContainerNoCPUsOfASidecar(t *testing.T) {
	for _, c := range []struct {
		kinds [2]place.Kind
		kept  bool
	}{{[2]place.Kind{place.Sidecar, place.Init}, false}, {[2]place.Kind{place.Init, place.Sidecar}, true}} {
		p := guaranteed(2, 2, 0)
		var decision []place.Holding
		for i, k := range c.kinds {
			p.Containers[i].Kind = k
			decision = append(decision, place.Holding{Container: p.Containers[i].Name, Kind: k, CPUs: cpus("8-9"),
				Memory: []place.Block{{Kind: topo.Memory, NUMAs: 4, Bytes: 1 << 29}}})
		}
		decision = append(decision, place.Holding{Container: "c2",
			Memory: []place.Block{{Kind: topo.Memory, NUMAs: 4, Bytes: 1 << 29}}})
		n := node(t, nil).With(pin.Arrival{UID: "p", Spec: p, Decision: decision})
		if got, _ := n.Pod("p"); got.Decided != c.kept {
			t.Errorf("%v: decided %t, want %t; %+v", c.kinds, got.Decided, c.kept, got)
		}
	}
}
