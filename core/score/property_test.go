package score_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/topo"
)

var allTypes = append([]score.Type{score.Tenon}, theirTypes[:]...)

// drawnMachine has one to six NUMA nodes with sparse ids; some lack CPUs, memory, or distances.
func drawnMachine(t *rapid.T) string {
	var b strings.Builder
	count, cpu, id := rapid.IntRange(1, 6).Draw(t, "numas"), 0, 0
	told := rapid.Bool().Draw(t, "told")
	for i := range count {
		fmt.Fprintf(&b, "numa %d", id)
		id += rapid.IntRange(1, 90).Draw(t, "gap")
		if n := rapid.IntRange(0, 8).Draw(t, "cpus"); n > 0 || i == 0 {
			fmt.Fprintf(&b, " cpus %d-%d", cpu, cpu+n)
			cpu += n + 1
		}
		if n := rapid.IntRange(0, 8).Draw(t, "memory"); n > 0 {
			fmt.Fprintf(&b, " memory %dGi", n)
		}
		b.WriteByte('\n')
	}
	for i := range count {
		if !told {
			break
		}
		b.WriteString("distances")
		for j := range count {
			d := 10
			if i != j {
				d = rapid.IntRange(11, 40).Draw(t, "distance")
			}
			fmt.Fprintf(&b, " %d", d)
		}
		b.WriteByte('\n')
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "devices") {
		fmt.Fprintf(&b, "device acme.com/gpu g%d numa %s\n", i, rapid.SampledFrom([]string{"0", "0", "none"}).Draw(t, "at"))
	}
	return b.String()
}

func drawnPod(t *rapid.T) *place.Pod {
	p := &place.Pod{QoS: place.QoS(rapid.IntRange(0, 2).Draw(t, "qos"))}
	for i := range rapid.IntRange(0, 3).Draw(t, "containers") {
		c := place.Container{Name: fmt.Sprint("c", i), MilliCPU: rapid.SampledFrom([]int64{0, 500, 1000, 3000, 6000}).Draw(t,
			"cpu")}
		if rapid.Bool().Draw(t, "init") && (i == 0 || p.Containers[i-1].Kind == place.Init) {
			c.Kind = place.Init
		}
		if n := rapid.Int64Range(0, 6).Draw(t, "memory"); n > 0 {
			c.Memory = []place.Amount{{Kind: topo.Memory, Bytes: n << 29}}
		}
		if n := rapid.Int64Range(0, 2).Draw(t, "gpus"); n > 0 {
			c.Devices = []place.Count{{Resource: "acme.com/gpu", N: n}}
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// drawnUsage draws an empty node: a machine, and rules of any policy and scope.
func drawnUsage(t *rapid.T, staticCPUs bool) *place.Usage {
	m, err := topo.ParseMachine(drawnMachine(t))
	if err != nil {
		t.Fatal(err)
	}
	return place.NewUsage(m, place.Rules{
		Topology: place.TopologyRules{Policy: place.Policy(rapid.IntRange(0, 3).Draw(t, "policy")),
			Scope: place.Scope(rapid.IntRange(0, 1).Draw(t, "scope"))},
		CPU:    place.CPURules{Static: staticCPUs},
		Memory: place.MemoryRules{Static: rapid.Bool().Draw(t, "static")},
	})
}

// For any machine and pod: no cost exceeds that of an unknown node, every score is in 0..100, and the other strategies
// give at least 1 to holdings on NUMA nodes.
func TestCostBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := drawnUsage(t, true)
		for range 3 {
			p := drawnPod(t)
			v := place.Place(u, p)
			if !v.Fits() {
				continue
			}
			for _, typ := range allTypes {
				s := score.Strategy{Type: typ}
				cost := s.Cost(u, p, v, rapid.Bool().Draw(t, "estimated"))
				if cost < 0 || cost > s.Unknown() {
					t.Fatalf("%v: cost %d is outside 0..%d", typ, cost, s.Unknown())
				}
				got := scoreOf(s, cost, s.Unknown())
				if got < 0 || got > score.Max || (typ != score.Tenon && got == 0 && v.NUMAs(u.Machine) != 0 && holdsAmounts(v)) {
					t.Fatalf("%v: score %d of %+v", typ, got, v)
				}
			}
			u = u.Hold(v.Holdings...)
		}
	})
}

// holdsAmounts reports whether the holdings have amounts above 0, and not only blocks with nothing left.
func holdsAmounts(v place.Verdict) bool {
	for _, h := range v.Holdings {
		if !h.CPUs.Empty() {
			return true
		}
	}
	return false
}

// busy is a machine of eight NUMA nodes on which much is held, and a pod that spans some of it.
func busy(tb testing.TB) (*place.Usage, *place.Pod, place.Verdict) {
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d l3 2 memory 64Gi hugepages-1Gi 4\n", i, i/4, 16*i, 16*i+15,
			128+16*i, 143+16*i)
		fmt.Fprintf(&b, "device acme.com/gpu g%d numa %d root pci0000:%d0\n"+
			"device acme.com/nic n%d numa %d root pci0000:%d0\n", i, i, i, i, i, i)
	}
	for i := range 8 {
		b.WriteString("distances")
		for j := range 8 {
			fmt.Fprintf(&b, " %d", 10+2*min(1, (i-j)*(i-j))+20*((i/4-j/4)*(i/4-j/4)))
		}
		b.WriteByte('\n')
	}
	u := node{machine: b.String(), policy: place.BestEffort}.usage(tb)
	for range 9 {
		u = u.Hold(place.Place(u, pod(tb, "cpu=6 memory=4Gi acme.com/nic=1")).Holdings...)
	}
	p := pod(tb, "cpu=40 memory=20Gi acme.com/gpu=2", "cpu=2 memory=1Gi")
	return u, p, place.Place(u, p)
}

func TestCostAllocatesNothing(t *testing.T) {
	u, p, v := busy(t)
	if !v.Fits() {
		t.Fatal(v.Reasons)
	}
	for _, typ := range allTypes {
		s := score.Strategy{Type: typ, Weights: []score.Weight{{"cpu", 2}, {"memory", 1}}, Mix: usual(t, score.MaxShapes)}
		if n := testing.AllocsPerRun(20, func() { s.Cost(u, p, v, false) }); n != 0 {
			t.Errorf("%v: %v allocations", typ, n)
		}
	}
}

func BenchmarkCost(b *testing.B) {
	u, p, v := busy(b)
	bench := func(name string, s score.Strategy) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Cost(u, p, v, false)
			}
		})
	}
	for _, typ := range allTypes {
		bench(typ.String(), score.Strategy{Type: typ})
	}
	bench("Tenon/16-shapes", score.Strategy{Mix: usual(b, score.MaxShapes)})
}
