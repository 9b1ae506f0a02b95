package place_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Whatever asks, the answer about a pod that requests resources as a whole is the same. Under scope pod it holds what
// it requests, in free CPUs, and its containers hold devices only.
func TestPodsAsAWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawnMachine(t)
		rules := drawnRules(t, m)
		rules.Release = rapid.SampledFrom([]place.Release{36, 37}).Draw(t, "release")
		rules.PodLevelManagers = true
		u := place.NewUsage(m, rules)
		for range rapid.IntRange(1, 6).Draw(t, "pods") {
			p := drawnWhole(t)
			v := place.Place(u, p)
			if place.Fits(u, p) != v.Fits() || place.NewQuestion(p).Fits(u) != v.Fits() {
				t.Fatalf("%v: Place says %v, Fits %t, Question %t", p, v, place.Fits(u, p), place.NewQuestion(p).Fits(u))
			}
			if !v.Fits() {
				if len(v.Reasons) == 0 || v.Reasons[0].Text() == "" {
					t.Fatalf("%v: refused with %s without a reason", p, v.Refusal)
				}
				continue
			}
			if !p.Complete(m, rules, v.Holdings) {
				t.Fatalf("%v: %v is not all that the node gives", p, v.Holdings)
			}
			if p.PodLevel && rules.Topology.Scope == place.PerPod && rules.Topology.Policy != place.None {
				checkWhole(t, u, p, v.Holdings)
			}
			u = u.Hold(v.Holdings...)
		}
	})
}

func checkWhole(t *rapid.T, u *place.Usage, p *place.Pod, hs []place.Holding) {
	var cpus idset.Set[idset.CPU]
	for _, h := range hs {
		if h.Container != "" && (!h.CPUs.Empty() || len(h.Memory) > 0) {
			t.Fatalf("%v: container %s holds %v", p, h.Container, h)
		}
		cpus = cpus.Union(h.CPUs)
	}
	want := 0
	if p.QoS == place.Guaranteed && u.Rules.CPU.Static && p.Whole.MilliCPU%1000 == 0 {
		want = int(p.Whole.MilliCPU / 1000)
	}
	if cpus.Len() != want || !cpus.SubsetOf(u.FreeCPUs()) {
		t.Fatalf("%v holds CPUs %s, want %d of %s", p, cpus, want, u.FreeCPUs())
	}
}

// drawnWhole draws a pod. Most such pods have spec.resources, with as much as their containers request, or more.
func drawnWhole(t *rapid.T) *place.Pod {
	p := drawnPod(t)
	p.PodLevel = rapid.IntRange(0, 3).Draw(t, "as a whole") > 0
	var memory int64
	for i := range p.Containers {
		c := &p.Containers[i]
		c.Unequal = rapid.Bool().Draw(t, "unequal")
		p.Whole.MilliCPU += c.MilliCPU
		for _, a := range c.Memory {
			if a.Kind == topo.Memory {
				memory += a.Bytes
			}
		}
	}
	p.Whole.MilliCPU = max(1000, p.Whole.MilliCPU+int64(rapid.SampledFrom([]int{0, 0, 1000, 500}).Draw(t, "more")))
	p.Whole.Memory = []place.Amount{{Kind: topo.Memory, Bytes: memory}}
	return p
}

// A pod is judged alike by kubelets that leave it alone, whatever it requests as a whole.
func TestWholesDoNotCountWithoutTheGate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawnMachine(t)
		rules := drawnRules(t, m)
		rules.Release = rapid.SampledFrom([]place.Release{30, 33, 34, 37}).Draw(t, "release")
		u, p := place.NewUsage(m, rules), drawnWhole(t)
		plain := clonePod(p)
		plain.Whole = place.Whole{}
		for i := range plain.Containers {
			plain.Containers[i].Unequal = false
		}
		if a, b := place.Place(u, p), place.Place(u, plain); a.Refusal != b.Refusal || len(a.Holdings) != len(b.Holdings) {
			t.Fatalf("%v: %v, and without what it requests as a whole %v", p, a, b)
		}
	})
}
