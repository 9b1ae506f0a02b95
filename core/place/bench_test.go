package place_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// The benchmarks place one pod on a machine that many pods are on already. Compare allocations and ratios; times depend
// on the machine that runs the benchmark. BenchmarkAgainstTheKubelet in lab/kubelet compares with the kubelet's own
// managers.

// benchMachine has n NUMA nodes with 256 CPUs together, two threads a core, on two sockets; two GPUs per NUMA node.
func benchMachine(tb testing.TB, n int) *topo.Machine {
	var b strings.Builder
	cores := 128 / n
	for i := range n {
		fmt.Fprintf(&b, "numa %d socket %d cpus %d-%d/%d-%d l3 2 memory %dGi hugepages-1Gi 4\n",
			i, i*2/n, i*cores, (i+1)*cores-1, 128+i*cores, 128+(i+1)*cores-1, 512/n)
		fmt.Fprintf(&b, "device acme.com/gpu g%02d,g%02d numa %d\n", 2*i, 2*i+1, i)
	}
	return parsed(tb, b.String())
}

// superchips has 36 NUMA nodes: two with CPUs and GPUs, 34 for the memory of GPU instances.
func superchips(tb testing.TB) *topo.Machine {
	var b strings.Builder
	for i := range 36 {
		fmt.Fprintf(&b, "numa %d", i)
		if i < 2 {
			fmt.Fprintf(&b, " socket %d cpus %d-%d memory 480Gi", i, i*72, i*72+71)
		}
		b.WriteByte('\n')
	}
	b.WriteString("device acme.com/gpu g0,g1 numa 0\ndevice acme.com/gpu g2,g3 numa 1\n")
	return parsed(tb, b.String())
}

func parsed(tb testing.TB, text string) *topo.Machine {
	m, err := topo.ParseMachine(text)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func benchPod(cpus, gigs, gpus int64) *place.Pod {
	c := place.Container{Name: "app", MilliCPU: cpus * 1000,
		Memory: []place.Amount{{Kind: topo.Memory, Bytes: gigs << 30}}}
	if gpus > 0 {
		c.Devices = []place.Count{{Resource: "acme.com/gpu", N: gpus}}
	}
	return &place.Pod{QoS: place.Guaranteed, Containers: []place.Container{c}}
}

// busy holds count small pods.
func busy(tb testing.TB, m *topo.Machine, r place.Rules, count int) *place.Usage {
	u := place.NewUsage(m, r)
	for i := range count {
		v := place.Place(u, benchPod(int64(1+i%4), 2, 0))
		if !v.Fits() {
			tb.Fatalf("pod %d: %v", i, v.Reasons)
		}
		u = u.Hold(v.Holdings...)
	}
	return u
}

func benchRules(p place.Policy) place.Rules {
	return place.Rules{
		Topology: place.TopologyRules{Policy: p, MaxNUMAs: 64},
		CPU:      place.CPURules{Static: true},
		Memory:   place.MemoryRules{Static: true},
	}
}

// benchCase is one machine with one pod to place on it.
type benchCase struct {
	name  string
	usage *place.Usage
	pod   *place.Pod
}

func benchCases(tb testing.TB) (out []benchCase) {
	for _, n := range []int{2, 4, 8} {
		for _, policy := range []place.Policy{place.SingleNUMA, place.Restricted, place.BestEffort} {
			u := busy(tb, benchMachine(tb, n), benchRules(policy), 50)
			name := fmt.Sprintf("numas=%d/%s/", n, policy)
			half := int64(256 / n / 2)
			out = append(out,
				benchCase{name + "cpu+memory", u, benchPod(8, 8, 0)},
				benchCase{name + "cpu+memory+gpu", u, benchPod(8, 8, 1)},
				benchCase{name + "refused", u, benchPod(half*2-1, 8, 3)})
		}
	}
	for _, policy := range []place.Policy{place.SingleNUMA, place.Restricted} {
		r := benchRules(policy)
		r.Memory.Static = false
		u := busy(tb, superchips(tb), r, 20)
		out = append(out, benchCase{fmt.Sprintf("numas=36/%s/cpu+gpu", policy), u, benchPod(8, 8, 1)})
	}
	return out
}

// BenchmarkPlace is the full verdict, ids and reasons included.
func BenchmarkPlace(b *testing.B) {
	for _, c := range benchCases(b) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				place.Place(c.usage, c.pod)
			}
		})
	}
}

// BenchmarkFits is the yes/no answer.
func BenchmarkFits(b *testing.B) {
	for _, c := range benchCases(b) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				place.Fits(c.usage, c.pod)
			}
		})
	}
}
