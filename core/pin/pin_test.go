package pin_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

const fourNUMAs = `
numa 0 socket 0 cpus 0-3/16-19 memory 16Gi
numa 1 socket 0 cpus 4-7/20-23 memory 16Gi
numa 2 socket 1 cpus 8-11/24-27 memory 16Gi
numa 3 socket 1 cpus 12-15/28-31 memory 16Gi
device acme.com/gpu a numa 1
device acme.com/gpu b numa 3
`

func node(t interface{ Fatal(...any) }, change func(*place.Rules)) *pin.Node {
	m, err := topo.ParseMachine(fourNUMAs)
	if err != nil {
		t.Fatal(err)
	}
	r := place.Rules{Arbiter: place.ByAgent, Topology: place.TopologyRules{Policy: place.SingleNUMA},
		CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0, 16)}, Memory: place.MemoryRules{Static: true}}
	if change != nil {
		change(&r)
	}
	if err := pin.Check(m, r); err != nil {
		t.Fatal(err)
	}
	return pin.New(m, r)
}

func guaranteed(cpus ...int64) *place.Pod {
	p := &place.Pod{QoS: place.Guaranteed}
	for i, n := range cpus {
		p.Containers = append(p.Containers, place.Container{Name: fmt.Sprint("c", i), MilliCPU: n * 1000,
			Memory: []place.Amount{{Kind: topo.Memory, Bytes: 1 << 30}}})
	}
	return p
}

func cpus(text string) idset.Set[idset.CPU] {
	s, err := idset.Parse[idset.CPU](text)
	if err != nil {
		panic(err)
	}
	return s
}

func want(t *testing.T, n *pin.Node, uid, container, list string, numas ...idset.NUMA) {
	t.Helper()
	got := n.Pin(uid, container)
	mask, err := n.Machine().MaskOf(numas...)
	if err != nil {
		t.Fatal(err)
	}
	if got.CPUs.String() != list || got.NUMAs != mask {
		t.Errorf("%s %s is pinned to CPUs %s and NUMA nodes %v, want %s and %v", uid, container, got.CPUs,
			n.Machine().IDs(got.NUMAs), list, numas)
	}
}

// The pod gets the scheduler's decision, even if the agent would choose something else.
func TestADecisionIsFollowed(t *testing.T) {
	decision := []place.Holding{{Container: "c0", CPUs: cpus("9,11,25,27"),
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: 4, Bytes: 1 << 30}}}}
	n := node(t, nil).With(pin.Arrival{UID: "p", Spec: guaranteed(4), Decision: decision})
	want(t, n, "p", "c0", "9,11,25,27", 2)
	want(t, n, "other", "c", "0-8,10,12-24,26,28-31")
	if p, _ := n.Pod("p"); !p.Decided || p.Fault != nil {
		t.Errorf("pod %+v", p)
	}
}

// A decision that is not what the pod asks for, or takes what another pod has, has no effect on other pods.
func TestAnImpossibleDecisionIsReplaced(t *testing.T) {
	n := node(t, nil).With(pin.Arrival{UID: "first", Spec: guaranteed(4)})
	first := n.Pin("first", "c0").CPUs
	blocks := func(mask topo.Mask, bytes int64) []place.Block {
		return []place.Block{{Kind: topo.Memory, NUMAs: mask, Bytes: bytes}}
	}
	for name, decision := range map[string][]place.Holding{
		"CPUs of another pod":        {{Container: "c0", CPUs: first, Memory: blocks(1, 1<<30)}},
		"reserved CPUs":              {{Container: "c0", CPUs: cpus("0,16,8,9"), Memory: blocks(1, 1<<30)}},
		"more CPUs than asked for":   {{Container: "c0", CPUs: cpus("8-15"), Memory: blocks(4, 1<<30)}},
		"no CPUs":                    {{Container: "c0", Memory: blocks(4, 1<<30)}},
		"another container":          {{Container: "c9", CPUs: cpus("8-11"), Memory: blocks(4, 1<<30)}},
		"more memory than asked for": {{Container: "c0", CPUs: cpus("8-11"), Memory: blocks(4, 2<<30)}},
		"another kind of container":  {{Container: "c0", Kind: place.Init, CPUs: cpus("8-11"), Memory: blocks(4, 1<<30)}},
		"a NUMA node that is not":    {{Container: "c0", CPUs: cpus("8-11"), Memory: blocks(1<<9, 1<<30)}},
		"nothing":                    {},
	} {
		after := n.With(pin.Arrival{UID: "p", Spec: guaranteed(4), Decision: decision})
		p, _ := after.Pod("p")
		if p.Fault == nil || p.Fault.Code != pin.Replaced || p.Decided {
			t.Errorf("%s: fault %+v", name, p.Fault)
		}
		if got := after.Pin("p", "c0"); got.CPUs.Len() != 4 || got.CPUs.AndLen(first) > 0 || got.NUMAs.Len() != 1 {
			t.Errorf("%s: the pod is pinned to CPUs %s on NUMA nodes %b", name, got.CPUs, got.NUMAs)
		}
	}
}

// The kubelet has admitted the pod, so it runs with what is free, and the fault has the reason.
func TestAPodThatThePoliciesRefuse(t *testing.T) {
	n := node(t, nil).With(pin.Arrival{UID: "wide", Spec: guaranteed(12)})
	p, _ := n.Pod("wide")
	if p.Fault == nil || p.Fault.Code != pin.Unaligned || len(p.Fault.Reasons) == 0 {
		t.Fatalf("fault %+v", p.Fault)
	}
	if got := n.Pin("wide", "c0"); got.CPUs.Len() != 12 || !got.Exclusive || got.NUMAs != 0 {
		t.Errorf("pinned to %s, NUMA nodes %b", got.CPUs, got.NUMAs)
	}
	n = n.With(pin.Arrival{UID: "more", Spec: guaranteed(20)})
	if p, _ := n.Pod("more"); p.Fault == nil || p.Fault.Code != pin.Shares {
		t.Fatalf("fault %+v: only 18 CPUs are left", p.Fault)
	}
	if got := n.Pin("more", "c0"); got.Exclusive || !got.CPUs.Equal(n.Shared()) {
		t.Errorf("pinned to %s, shared are %s", got.CPUs, n.Shared())
	}
}

// The kubelet has chosen a GPU on NUMA node 3: CPUs and memory are taken there.
func TestAPodIsPlacedNearItsDevices(t *testing.T) {
	p := guaranteed(4)
	p.Containers[0].Devices = []place.Count{{Resource: "acme.com/gpu", N: 1}}
	n := node(t, nil).With(pin.Arrival{UID: "p", Spec: p,
		Devices: []pin.Given{{Container: "c0", Resource: "acme.com/gpu", IDs: []string{"b"}}}})
	want(t, n, "p", "c0", "12-13,28-29", 3)
	if got, _ := n.Pod("p"); got.Fault != nil || len(got.Holdings[0].Devices) > 0 {
		t.Errorf("pod %+v", got)
	}
}

// Two containers have a GPU each, on NUMA nodes 3 and 1, in this order: each is placed beside its own.
func TestEachContainerIsPlacedNearItsDevices(t *testing.T) {
	p := guaranteed(4, 2)
	for i := range p.Containers {
		p.Containers[i].Devices = []place.Count{{Resource: "acme.com/gpu", N: 1}}
	}
	n := node(t, nil).With(pin.Arrival{UID: "p", Spec: p, Devices: []pin.Given{
		{Container: "c0", Resource: "acme.com/gpu", IDs: []string{"b"}},
		{Container: "c1", Resource: "acme.com/gpu", IDs: []string{"a"}}}})
	want(t, n, "p", "c0", "12-13,28-29", 3)
	want(t, n, "p", "c1", "4,20", 1)
}

// What was not free when a pod arrived is free now: it gets what was decided, or CPUs of its own.
func TestMended(t *testing.T) {
	decision := []place.Holding{{Container: "c0", CPUs: cpus("8-11,24-27"),
		Memory: []place.Block{{Kind: topo.Memory, NUMAs: 4, Bytes: 1 << 30}}}}
	n := node(t, nil).With(pin.Arrival{UID: "ends", Spec: guaranteed(8), Decision: decision}).
		With(pin.Arrival{UID: "next", Spec: guaranteed(8), Decision: decision}).
		With(pin.Arrival{UID: "more", Spec: guaranteed(16)}).With(pin.Arrival{UID: "stays", Spec: guaranteed(2)})
	stays := n.Pin("stays", "c0").CPUs
	if p, _ := n.Pod("more"); p.Fault == nil || p.Fault.Code != pin.Shares {
		t.Fatalf("fault %+v", p.Fault)
	}
	if same := n.Mended(); same != n {
		t.Error("something is mended while nothing is free")
	}
	n = n.Without("ends").Mended()
	want(t, n, "next", "c0", "8-11,24-27", 2)
	if p, _ := n.Pod("more"); p.Fault.Code != pin.Unaligned || n.Pin("more", "c0").CPUs.Len() != 16 {
		t.Errorf("pod %+v is pinned to %s", p, n.Pin("more", "c0").CPUs)
	}
	if got := n.Pin("stays", "c0").CPUs; !got.Equal(stays) {
		t.Errorf("a pod without a fault moved from %s to %s", stays, got)
	}
}

func TestResize(t *testing.T) {
	n := node(t, nil).With(pin.Arrival{UID: "p", Spec: guaranteed(4, 2)}).With(pin.Arrival{UID: "q", Spec: guaranteed(4)})
	before := n.Pin("p", "c0").CPUs
	grown := n.Resized("p", guaranteed(6, 2))
	if got := grown.Pin("p", "c0"); got.CPUs.Len() != 6 || !before.SubsetOf(got.CPUs) {
		t.Errorf("CPUs %s grew to %s", before, got.CPUs)
	}
	if got := grown.Pin("p", "c1").CPUs; !got.Equal(n.Pin("p", "c1").CPUs) {
		t.Errorf("the other container moved to %s", got)
	}
	shrunk := grown.Resized("p", guaranteed(2, 2))
	if got := shrunk.Pin("p", "c0").CPUs; got.Len() != 2 || !got.SubsetOf(grown.Pin("p", "c0").CPUs) {
		t.Errorf("CPUs shrank to %s", got)
	}
	tooMuch := n.Resized("p", guaranteed(28, 2))
	kept := tooMuch.Pin("p", "c0").CPUs
	if p, _ := tooMuch.Pod("p"); p.Fault == nil || p.Fault.Code != pin.Shares || !kept.Equal(before) {
		t.Errorf("pod %+v is pinned to %s", p, kept)
	}
	given := tooMuch.Resized("p", guaranteed(4, 2))
	if p, _ := given.Pod("p"); p.Fault != nil || !given.Pin("p", "c0").CPUs.Equal(before) {
		t.Errorf("after it gave up growing, pod %+v", p)
	}
}

func TestCheck(t *testing.T) {
	n := node(t, nil)
	for text, change := range map[string]func(*place.Rules){
		"not the agent":     func(r *place.Rules) { r.Arbiter = place.ByKubelet },
		"want the CPU":      func(r *place.Rules) { r.CPU.Static = false },
		"need at least one": func(r *place.Rules) { r.CPU.Reserved = idset.Set[idset.CPU]{} },
		"reserved CPUs 99":  func(r *place.Rules) { r.CPU.Reserved = cpus("99") },
	} {
		r := n.Rules()
		if change(&r); pin.Check(n.Machine(), r) == nil || !strings.Contains(pin.Check(n.Machine(), r).Error(), text) {
			t.Errorf("error %v, want %q", pin.Check(n.Machine(), r), text)
		}
	}
}

// For any sequence of arrivals, ends and resizes: no CPU is exclusive to two containers that run together, none is both
// exclusive and shared, and some are shared.
func TestEveryCPUHasOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := node(t, func(r *place.Rules) {
			r.Topology.Policy = place.Policy(rapid.IntRange(0, 3).Draw(t, "policy"))
			r.Topology.Scope = place.Scope(rapid.IntRange(0, 1).Draw(t, "scope"))
			r.CPU.FullPCPUsOnly = rapid.Bool().Draw(t, "full cores")
			r.CPU.StrictReservation = rapid.Bool().Draw(t, "strict")
		})
		spec := func() *place.Pod {
			p := guaranteed(rapid.SliceOfN(rapid.Int64Range(0, 12), 1, 3).Draw(t, "cpus")...)
			if rapid.Bool().Draw(t, "burstable") {
				p.QoS = place.Burstable
			}
			return p
		}
		for k := range rapid.IntRange(1, 25).Draw(t, "steps") {
			uid := fmt.Sprint("p", rapid.IntRange(0, k).Draw(t, "pod"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				n = n.Without(uid)
			case 1:
				if p, ok := n.Pod(uid); ok {
					s := guaranteed(rapid.SliceOfN(rapid.Int64Range(0, 12), len(p.Spec.Containers),
						len(p.Spec.Containers)).Draw(t, "resized")...)
					s.QoS = p.Spec.QoS
					n = n.Resized(uid, s)
				}
			default:
				a := pin.Arrival{UID: uid, Spec: spec()}
				if len(n.Pods()) > 0 && rapid.Bool().Draw(t, "stolen") {
					a.Decision = n.Pods()[0].Holdings
				}
				n = n.With(a).Mended()
			}
			owners := map[idset.CPU]string{}
			shared := n.Shared()
			if shared.Empty() {
				t.Fatal("no CPUs are shared")
			}
			for _, p := range n.Pods() {
				for _, h := range p.Holdings {
					for c := range h.CPUs.All() {
						if owners[c] != "" || shared.Has(c) {
							t.Fatalf("CPU %d is of %s %s, of %q, shared: %t", c, p.UID, h.Container, owners[c], shared.Has(c))
						}
						owners[c] = p.UID + " " + h.Container
					}
				}
			}
		}
	})
}
